package keeper

import (
	"os"
	"os/signal"
	"slices"
	"sync"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"

	"gpurun/gpu"
	"gpurun/runner/engine/procs"
)

// A reaper waits for the children of this process: those it started, whose ends callers await,
// and the orphans that it inherits as a subreaper.
type reaper struct {
	orphan func([]end) // called with the orphans that have ended, before other ends of the same round are delivered

	turn   sync.Mutex // held by reap; taken before mu
	mu     sync.Mutex // held while a child is started or reaped
	want   map[int]chan end
	rounds uint64
}

// An end is a child that has ended.
type end struct {
	procs.ID     // for children started here, only the pid
	session  int // for an orphan: pid of its session's leader
	status   unix.WaitStatus
	cpu      time.Duration // used by it and the children that it waited for
	rss      gpu.Bytes     // peak memory of the largest of these; 0 if less than that of this process
	round    uint64        // children that ended together are reaped in one round
	at       time.Duration // for an orphan: CLOCK_BOOTTIME when its end was reported
}

func newReaper(orphan func([]end)) *reaper {
	return &reaper{orphan: orphan, want: map[int]chan end{}}
}

// start starts a program and returns the channel that will receive its end.
func (r *reaper) start(p *program) (procs.ID, <-chan end, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	id, err := p.start()
	if err != nil {
		return id, nil, err
	}
	exit := make(chan end, 1)
	r.want[id.PID] = exit
	return id, exit, nil
}

// ours reports whether a child was started here and has not been waited for.
func (r *reaper) ours(pid int) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.want[pid] != nil
}

// childless reports whether nothing is left to wait for.
func (r *reaper) childless() bool {
	_, err := peek()
	return err == unix.ECHILD
}

// wait reaps children forever, as they end.
func (r *reaper) wait() {
	signals := make(chan os.Signal, 1)
	signal.Notify(signals, unix.SIGCHLD)
	for {
		r.reap() // one may have ended before
		<-signals
	}
}

// peek returns the pid of a child that has ended, which may be an adopted orphan, without reaping
// it. The pid is 0 if none has ended. The error is ECHILD if there are no children at all.
func peek() (pid int, err error) {
	var info unix.Siginfo
	err = unix.Waitid(unix.P_ALL, 0, &info, unix.WEXITED|unix.WNOWAIT|unix.WALL|unix.WNOHANG, nil)
	// In the kernel's struct, the pid follows signo, errno and code, aligned to 8 bytes.
	return int(*(*int32)(unsafe.Add(unsafe.Pointer(&info), 16))), err
}

// reap reaps all children that have ended, and only then notifies the waiters: by that
// time, nothing that ended earlier is still listed as a child. When it returns, all
// waiters have been notified.
func (r *reaper) reap() {
	r.turn.Lock()
	defer r.turn.Unlock()
	r.mu.Lock()
	r.rounds++
	var orphans []end
	awaited := map[chan end]end{}
	for {
		pid, err := peek()
		if err != nil || pid == 0 {
			break
		}
		exit := r.want[pid]
		switch e, ok := r.take(pid); {
		case !ok:
		case exit == nil:
			orphans = append(orphans, e)
		default:
			delete(r.want, pid)
			awaited[exit] = e
		}
	}
	r.mu.Unlock()
	if len(orphans) > 0 {
		r.orphan(orphans)
	}
	for exit, e := range awaited {
		exit <- e
	}
}

// take reaps one child that has ended. If the child is an orphan, take first reads its start time
// and session, which identify it. r.mu is held.
func (r *reaper) take(pid int) (e end, ok bool) {
	e = end{ID: procs.ID{PID: pid}, round: r.rounds}
	if r.want[pid] == nil {
		if p, ok := procs.One(pid); ok {
			e.ID, e.session = p.ID, p.Session
		}
	}
	var used unix.Rusage
	got, err := unix.Wait4(pid, &e.status, unix.WNOHANG|unix.WALL, &used)
	e.cpu = time.Duration(used.Utime.Nano() + used.Stime.Nano())
	var own unix.Rusage // a child begins as a copy of this process, whose memory counts as the child's
	if unix.Getrusage(unix.RUSAGE_SELF, &own) == nil && used.Maxrss > own.Maxrss {
		e.rss = gpu.Bytes(used.Maxrss) * gpu.KiB
	}
	return e, err == nil && got > 0
}

// orphans lists the children that were not started here. That is cheap if the kernel
// provides a list of children; otherwise it reads all of /proc.
func (r *reaper) orphans(list *os.File) []int {
	children, err := procs.Pids(list)
	if list == nil || err != nil {
		children = nil
		self := os.Getpid()
		for _, p := range procs.Read() {
			if p.Parent == self {
				children = append(children, p.PID)
			}
		}
	}
	return slices.DeleteFunc(children, r.ours)
}
