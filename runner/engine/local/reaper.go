package local

import (
	"os"
	"os/signal"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"

	"gpurun/runner/engine/local/procs"
	"gpurun/runner/engine/local/spawn"
)

// A reaper waits for the children of this process: those it started, whose status
// somebody wants, and the orphans that it gets as a subreaper.
type reaper struct {
	all     bool          // wait for every child; else only for known ones (others have their own waiter)
	orphan  func([]end)   // called with the orphans that have ended, before other ends of the same round are delivered
	born    chan struct{} // poked when there is a new child to wait for
	signals chan os.Signal
	quit    chan struct{}

	turn   sync.Mutex // held by reap; taken before mu
	mu     sync.Mutex
	births []*birth
	want   map[int]chan end // by pid
	extra  map[int]bool     // known orphans, if all is false
	rounds uint64
}

// An end is a child that has ended.
type end struct {
	procs.ID     // for children started here, only the pid
	session  int // for an orphan: pid of its session's leader
	status   unix.WaitStatus
	cpu      time.Duration // used by it and the children that it waited for
	round    uint64        // children that ended together are reaped in one round
	at       time.Duration // for an orphan: CLOCK_BOOTTIME when its end was reported
}

// A birth is a process being started. It may be listed as a child, or even have ended,
// before whoever starts it knows of it.
type birth struct {
	pid   atomic.Int32 // 0 until the process exists
	exit  chan end
	ended bool          // exit has its status
	over  chan struct{} // closed when the process is known, or could not be started
}

func newReaper(all bool, orphan func([]end)) *reaper {
	r := &reaper{
		all: all, orphan: orphan, born: make(chan struct{}, 1), signals: make(chan os.Signal, 1), quit: make(chan struct{}),
		want: map[int]chan end{}, extra: map[int]bool{},
	}
	if all {
		go r.wait()
	} else {
		signal.Notify(r.signals, unix.SIGCHLD)
		go r.run()
	}
	return r
}

// stop ends the reaper.
func (r *reaper) stop() {
	signal.Stop(r.signals)
	close(r.quit)
}

// start starts a process and returns the channel that will receive its end. When plant
// returns, the process is known; nobody waits longer than a start takes for that.
func (r *reaper) start(req *spawn.Request, plant func(spawn.Process)) (spawn.Process, <-chan end, error) {
	b := &birth{exit: make(chan end, 1), over: make(chan struct{})}
	req.PID = &b.pid
	r.mu.Lock()
	r.births = append(r.births, b)
	r.mu.Unlock()
	p, err := spawn.Start(req)
	if err == nil {
		plant(p)
	}
	r.mu.Lock()
	if err == nil && !b.ended {
		r.want[p.PID] = b.exit
	}
	r.births = slices.DeleteFunc(r.births, func(x *birth) bool { return x == b })
	r.mu.Unlock()
	close(b.over)
	if err != nil {
		return p, nil, err
	}
	r.wake()
	return p, b.exit, nil
}

// settle waits until every process that is currently being started is known.
func (r *reaper) settle() {
	r.mu.Lock()
	births := slices.Clone(r.births)
	r.mu.Unlock()
	for _, b := range births {
		<-b.over
	}
}

// ours reports whether a child was started here and has not been waited for.
func (r *reaper) ours(pid int) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.want[pid] != nil || r.birth(pid) != nil
}

// childless reports whether nothing is left to wait for.
func (r *reaper) childless() bool {
	_, err := spawn.PeekNow()
	return err == unix.ECHILD
}

// birth returns the start that a process comes from, or nil. r.mu is held.
func (r *reaper) birth(pid int) *birth {
	for _, b := range r.births {
		if int(b.pid.Load()) == pid {
			return b
		}
	}
	return nil
}

// adoptOrphan makes a reaper that does not wait for all children wait for this one too.
func (r *reaper) adoptOrphan(pid int) {
	if r.all {
		return
	}
	r.mu.Lock()
	r.extra[pid] = true
	r.mu.Unlock()
	r.wake()
}

// wake makes the reaper look again because there is another child to wait for.
func (r *reaper) wake() {
	if r.all {
		poke(r.born)
		return
	}
	select {
	case r.signals <- unix.SIGCHLD:
	default:
	}
}

// wait waits for whichever child ends next. A thread blocked in the kernel learns of it
// at once; a signal would pass through three goroutines.
func (r *reaper) wait() {
	for {
		switch pid, err := spawn.Peek(); {
		case err == nil:
			r.reap(pid)
		case err == unix.ECHILD:
			<-r.born
		}
	}
}

func (r *reaper) run() {
	for {
		select {
		case <-r.signals:
			r.mu.Lock()
			pids := r.known()
			r.mu.Unlock()
			r.reap(pids...)
		case <-r.quit:
			return
		}
	}
}

// reap reaps these children if they have ended, and all others that have, and only then
// notifies the waiters: by that time, nothing that ended earlier is still listed as a
// child. When it returns, all waiters have been notified.
func (r *reaper) reap(pids ...int) {
	r.turn.Lock()
	defer r.turn.Unlock()
	r.mu.Lock()
	r.rounds++
	var ends []end
	for _, pid := range pids {
		ends = r.take(ends, pid)
	}
	for r.all {
		pid, err := spawn.PeekNow()
		if err != nil || pid == 0 {
			break
		}
		ends = r.take(ends, pid)
	}
	tell := r.sort(ends)
	r.mu.Unlock()
	tell()
}

// take reaps one child that has ended and appends its end. An orphan has to be
// identified before that. r.mu is held.
func (r *reaper) take(ends []end, pid int) []end {
	e := end{ID: procs.ID{PID: pid}, round: r.rounds}
	if r.want[pid] == nil && r.birth(pid) == nil {
		if p, ok := procs.One(pid); ok {
			e.ID, e.session = p.ID, p.Session
		}
	}
	var used unix.Rusage
	got, err := unix.Wait4(pid, &e.status, unix.WNOHANG|unix.WALL, &used)
	for err == unix.EINTR {
		got, err = unix.Wait4(pid, &e.status, unix.WNOHANG|unix.WALL, &used)
	}
	if err != nil {
		delete(r.extra, pid)
	}
	if err != nil || got <= 0 {
		return ends
	}
	e.cpu = time.Duration(used.Utime.Nano() + used.Stime.Nano())
	return append(ends, e)
}

// sort separates ends that somebody waits for from orphans. It returns a function that
// delivers both, orphans first, to be called once r.mu is released. r.mu is held.
func (r *reaper) sort(ends []end) (tell func()) {
	var orphans []end
	var waits []chan end
	var theirs []end
	for _, e := range ends {
		c := r.want[e.PID]
		if c != nil {
			delete(r.want, e.PID)
		} else if b := r.birth(e.PID); b != nil {
			b.ended = true
			c = b.exit
		} else {
			delete(r.extra, e.PID)
			orphans = append(orphans, e)
			continue
		}
		waits, theirs = append(waits, c), append(theirs, e)
	}
	return func() {
		if len(orphans) > 0 {
			r.orphan(orphans)
		}
		for i, c := range waits {
			c <- theirs[i]
		}
	}
}

// known returns the children that somebody waits for. r.mu is held.
func (r *reaper) known() []int {
	pids := make([]int, 0, len(r.want)+len(r.extra))
	for pid := range r.want {
		pids = append(pids, pid)
	}
	for pid := range r.extra {
		pids = append(pids, pid)
	}
	return pids
}

// orphans lists the children that were not started here. That is cheap if the kernel
// provides a list of children; otherwise it reads all of /proc.
func (r *reaper) orphans(list *os.File) []int {
	var children []int
	pids, err := procs.Pids(list)
	if list != nil && err == nil {
		children = pids
	} else {
		self := os.Getpid()
		for _, p := range procs.Read() {
			if p.Parent == self {
				children = append(children, p.PID)
			}
		}
	}
	strange := func(pid int) bool { return !r.ours(pid) }
	if slices.ContainsFunc(children, strange) {
		r.settle() // the list may include one that is just being started
	}
	return slices.DeleteFunc(children, func(pid int) bool { return !strange(pid) })
}
