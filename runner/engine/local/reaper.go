package local

import (
	"os"
	"os/signal"
	"slices"
	"sync"
	"sync/atomic"

	"golang.org/x/sys/unix"

	"gpurun/runner/engine/local/procs"
	"gpurun/runner/engine/local/spawn"
)

// A reaper waits for the children of this process: those that it started, whose
// status somebody wants, and the orphans that a subreaper is given.
type reaper struct {
	all     bool // wait for every child; else only for those it knows (others have their own waiter)
	orphan  func()
	born    chan struct{} // poked when there is a child to wait for
	signals chan os.Signal
	quit    chan struct{}

	mu     sync.Mutex
	births []*birth
	want   map[int]chan unix.WaitStatus // by pid
	extra  map[int]bool                 // known orphans, where all is false
}

// A birth is a process that is being started. It may be listed as a child, and may
// even have ended, before whoever starts it knows of it.
type birth struct {
	pid   atomic.Int32 // 0 until there is a process
	exit  chan unix.WaitStatus
	ended bool          // and exit has its status
	over  chan struct{} // closed when it is known for what it is, or has come to nothing
}

func newReaper(all bool, orphan func()) *reaper {
	r := &reaper{
		all: all, orphan: orphan, born: make(chan struct{}, 1), signals: make(chan os.Signal, 1), quit: make(chan struct{}),
		want: map[int]chan unix.WaitStatus{}, extra: map[int]bool{},
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

// start starts a process and returns the channel on which its status will come.
// When plant returns, the process is known for what it is; nobody waits for that
// longer than a start takes.
func (r *reaper) start(req *spawn.Request, plant func(spawn.Process)) (spawn.Process, <-chan unix.WaitStatus, error) {
	b := &birth{exit: make(chan unix.WaitStatus, 1), over: make(chan struct{})}
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

// settle waits until every process that is being started now is known.
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

// birth finds the start that a process comes from. r.mu is held.
func (r *reaper) birth(pid int) *birth {
	for _, b := range r.births {
		if int(b.pid.Load()) == pid {
			return b
		}
	}
	return nil
}

// adoptOrphan makes a reaper that does not wait for all wait for this child too.
func (r *reaper) adoptOrphan(pid int) {
	if r.all {
		return
	}
	r.mu.Lock()
	r.extra[pid] = true
	r.mu.Unlock()
	r.wake()
}

// wake has the children looked at: there is another to wait for.
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

// wait waits for whatever child ends next. A thread that stands in the kernel
// hears of it at once; a signal would go through three goroutines.
func (r *reaper) wait() {
	for {
		pid, st, err := spawn.Wait()
		switch {
		case err == nil:
			if r.reap(end{pid, st}) {
				r.orphan()
			}
		case err == unix.ECHILD:
			<-r.born
		}
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

// An end is a child that has been waited for.
type end struct {
	pid int
	st  unix.WaitStatus
}

// reap takes every child that has ended, besides those that have been taken, then
// tells those who wait: when they hear of it, nothing that ended before is still
// listed as a child.
func (r *reaper) reap(ends ...end) (orphans bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
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
			ends = append(ends, end{got, st})
			if pid > 0 {
				break
			}
		}
	}
	for _, e := range ends {
		if c := r.want[e.pid]; c != nil {
			delete(r.want, e.pid)
			c <- e.st
		} else if b := r.birth(e.pid); b != nil {
			b.ended = true
			b.exit <- e.st
		} else {
			delete(r.extra, e.pid)
			orphans = true
		}
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
	strange := func(pid int) bool { return !r.ours(pid) }
	if slices.ContainsFunc(children, strange) {
		r.settle() // the list may have had one that is just being started
	}
	return slices.DeleteFunc(children, func(pid int) bool { return !strange(pid) })
}
