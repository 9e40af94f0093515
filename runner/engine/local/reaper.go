package local

import (
	"os"
	"os/signal"
	"sync"

	"golang.org/x/sys/unix"

	"gpurun/runner/engine/local/procs"
	"gpurun/runner/engine/local/spawn"
)

// A reaper waits for the children of this process: those that it started, whose
// status somebody wants, and the orphans that a subreaper is given.
type reaper struct {
	all     bool // wait for every child; else only for those it knows (others have their own waiter)
	orphan  func()
	signals chan os.Signal
	quit    chan struct{}

	mu    sync.Mutex
	want  map[int]chan unix.WaitStatus // by pid
	extra map[int]bool                 // known orphans, where all is false
}

func newReaper(all bool, orphan func()) *reaper {
	r := &reaper{
		all: all, orphan: orphan, signals: make(chan os.Signal, 1), quit: make(chan struct{}),
		want: map[int]chan unix.WaitStatus{}, extra: map[int]bool{},
	}
	signal.Notify(r.signals, unix.SIGCHLD)
	go r.run()
	return r
}

// stop ends the reaper.
func (r *reaper) stop() {
	signal.Stop(r.signals)
	close(r.quit)
}

// start starts a process and returns the channel on which its status will come.
func (r *reaper) start(req *spawn.Request) (spawn.Process, <-chan unix.WaitStatus, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	p, err := spawn.Start(req)
	if err != nil {
		return p, nil, err
	}
	c := make(chan unix.WaitStatus, 1)
	r.want[p.PID] = c
	return p, c, nil
}

// ours reports whether a child was started here and has not been waited for.
func (r *reaper) ours(pid int) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.want[pid] != nil
}

// adoptOrphan makes a reaper that does not wait for all wait for this child too.
func (r *reaper) adoptOrphan(pid int) {
	if r.all {
		return
	}
	r.mu.Lock()
	r.extra[pid] = true
	r.mu.Unlock()
	select {
	case r.signals <- unix.SIGCHLD:
	default:
	}
}

func (r *reaper) run() {
	for {
		select {
		case <-r.signals:
			if r.reap() {
				r.orphan()
			}
		case <-r.quit:
			return
		}
	}
}

// reap takes every child that has ended, then tells those who wait: when they
// hear of it, nothing that ended before is still listed as a child.
func (r *reaper) reap() (orphans bool) {
	type end struct {
		c  chan unix.WaitStatus
		st unix.WaitStatus
	}
	var ends []end
	r.mu.Lock()
	defer r.mu.Unlock()
	take := func(pid int, st unix.WaitStatus) {
		if c := r.want[pid]; c != nil {
			delete(r.want, pid)
			ends = append(ends, end{c, st})
			return
		}
		delete(r.extra, pid)
		orphans = true
	}
	for _, pid := range r.targets() {
		for {
			var st unix.WaitStatus
			got, err := unix.Wait4(pid, &st, unix.WNOHANG|unix.WALL, nil)
			if err == unix.EINTR {
				continue
			}
			if err != nil && pid > 0 {
				delete(r.extra, pid)
			}
			if err != nil || got <= 0 {
				break
			}
			take(got, st)
			if pid > 0 {
				break
			}
		}
	}
	for _, e := range ends {
		e.c <- e.st
	}
	return orphans
}

func (r *reaper) targets() []int {
	if r.all {
		return []int{-1}
	}
	pids := make([]int, 0, len(r.want)+len(r.extra))
	for pid := range r.want {
		pids = append(pids, pid)
	}
	for pid := range r.extra {
		pids = append(pids, pid)
	}
	return pids
}

// orphans lists the children that were not started here. It is cheap where the
// kernel has a list of children, and reads all of /proc where not.
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
	r.mu.Lock()
	defer r.mu.Unlock()
	var orphans []int
	for _, pid := range children {
		if r.want[pid] == nil {
			orphans = append(orphans, pid)
		}
	}
	return orphans
}
