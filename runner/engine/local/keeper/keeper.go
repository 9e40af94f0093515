// Package keeper implements the keeper, the process that is the parent of all jobs of a run and
// outlives the runner. It starts the jobs, drives their commands, enforces timeouts, ends whole
// process trees, and writes each attempt's end to disk before it reports the end.
//
// The keeper is a subreaper: orphaned processes of a job become its children, so it learns how they
// end. It reads an orphan's session and start time before it reaps the orphan. All attempts that
// need a list of their processes share one scan of /proc (scan.go). Before killing a tree, the
// keeper stops its processes until no new ones turn up (freeze.go). It also decides what happens to
// processes that a job's commands leave running (leftovers.go). From its GPU readings, the runner
// reports which of them use the job's GPUs. A keeper stays as long as it has children. The runner
// pings each keeper every few seconds (pulse.go) and reports one that does not answer.
package keeper

import (
	"errors"
	"fmt"
	"maps"
	"net"
	"os"
	"os/signal"
	"runtime"
	"runtime/debug"
	"slices"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"gpurun/gpu"
	"gpurun/runner/engine"
	"gpurun/runner/engine/local/wire"
	"gpurun/runner/engine/procs"
	"gpurun/state"
	"gpurun/state/host"
)

// Descriptors that a keeper inherits from the runner.
const (
	keeperConn   = 3 // the runner's own connection
	keeperListen = 4 // for later runners; may be missing
)

// A keeper is the parent of a run's jobs and outlives the runner. It exits when no
// runner is connected and its last job is gone.
type keeper struct {
	reaper   *reaper
	oom      oomCounter
	children *os.File // see procs.ChildList
	null     int
	files    int // limit on this process's descriptors; 0 if unknown

	mu       sync.Mutex
	attempts map[string]*attempt
	links    map[*wire.Link]bool
	quiet    chan struct{} // closed when the keeper has nothing left to do
	forest   forest
	scans    scans
	claims   claims
	limits   Limits
	bound    bool                // attempts end with the last runner
	outlasts int                 // claims held for other processes, and records not saved yet
	tell     func(*wire.Message) // sends to every runner
	peaks    func() ([]gpu.Peak, int)
	environ  []string // shared by attempts
	programs sync.Map // their paths, by name and PATH
	records  sync.Map // open files of records, by their paths
}

// newKeeper creates a keeper in this process. The keeper treats every child of the process as its
// own.
func newKeeper() (*keeper, error) {
	null, err := unix.Open(os.DevNull, unix.O_RDONLY|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, fmt.Errorf("cannot open %s: %w", os.DevNull, err)
	}
	if err := unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0); err != nil {
		return nil, fmt.Errorf("cannot adopt orphaned job processes: %w", err)
	}
	k := &keeper{
		null:     null,
		attempts: map[string]*attempt{}, links: map[*wire.Link]bool{}, quiet: make(chan struct{}),
	}
	k.forest.seen = map[procs.ID]string{}
	var lim unix.Rlimit
	if unix.Getrlimit(unix.RLIMIT_NOFILE, &lim) == nil && lim.Cur < 1<<20 {
		k.files = int(lim.Cur)
	}
	k.children, _ = procs.ChildList()
	k.tell = k.broadcast
	k.reaper = newReaper(k.orphaned)
	return k, nil
}

// Main is the main function of `gpurun __keeper`. Its arguments are the path of the socket it
// listens on, which it removes at the end, and perhaps wire.Bound.
func Main(args []string, limits Limits) int {
	// The keeper's work is short and mostly system calls. Waking up a second processor would cost
	// more than it saves: in a run of short jobs, a tenth of the time.
	runtime.GOMAXPROCS(1)
	debug.SetGCPercent(400) // the heap is only a few megabytes
	ignoreTerminal()
	closeOnExec()
	k, err := newKeeper()
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 70
	}
	first, err := net.FileConn(os.NewFile(keeperConn, "runner"))
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 70
	}
	k.limits, k.bound = limits, len(args) > 1 && args[1] == wire.Bound
	go k.reaper.wait()
	k.mu.Lock()
	k.serve(first)
	k.mu.Unlock()
	if l, err := net.FileListener(os.NewFile(keeperListen, "listen")); err == nil {
		go k.accept(l)
	}
	<-k.quiet
	if len(args) > 0 {
		_ = os.Remove(args[0])
	}
	return 0
}

// ignoreTerminal catches, and drops, every signal that a terminal, a logout or a batch
// system may send, and those that were ignored at startup. It does not ignore them,
// because ignored signals would stay ignored in jobs, while caught ones are reset.
func ignoreTerminal() {
	caught := []os.Signal{unix.SIGHUP, unix.SIGINT, unix.SIGTERM, unix.SIGQUIT, unix.SIGTSTP, unix.SIGTTIN, unix.SIGTTOU}
	for s := unix.Signal(1); s < 65; s++ {
		if s != unix.SIGCHLD && signal.Ignored(s) {
			caught = append(caught, s)
		}
	}
	signal.Notify(make(chan os.Signal, 1), caught...)
}

// closeOnExec keeps jobs from inheriting descriptors that the runner itself inherited.
func closeOnExec() {
	for _, fd := range host.InheritedFDs() {
		if fd > 2 {
			unix.CloseOnExec(fd)
		}
	}
}

// acceptAgain is the pause after a failed accept.
const acceptAgain = 100 * time.Millisecond

// accept accepts later runners of the same user or root. It keeps trying after errors
// such as running out of descriptors: they pass, and a runner that is never accepted
// would wait forever.
func (k *keeper) accept(l net.Listener) {
	for {
		c, err := l.Accept()
		if errors.Is(err, net.ErrClosed) {
			return
		}
		if err != nil {
			<-time.After(acceptAgain)
			continue
		}
		k.mu.Lock()
		if k.over() || !host.SameUser(c) {
			c.Close()
		} else {
			k.serve(c)
		}
		k.mu.Unlock()
	}
}

// serve starts a goroutine that serves one runner until it disconnects. k.mu is held.
func (k *keeper) serve(c net.Conn) {
	l := wire.NewLink(c, func(f func()) { k.contain("a connection", f) })
	k.links[l] = true
	go func() {
		contained("a request", func() { _ = l.Receive(func(m *wire.Message) { k.handle(l, m) }) })
		l.Close()
		k.endClaimsOf(l)
		k.mu.Lock()
		delete(k.links, l)
		if k.bound && len(k.links) == 0 {
			for id, a := range k.attempts {
				a.stops.Put(&wire.Message{Op: wire.Stop, UniID: id, Why: state.WhyInterrupted})
			}
		}
		k.mu.Unlock()
		k.checkQuiet()
	}()
}

func (k *keeper) over() bool {
	return len(k.links) == 0 && len(k.attempts) == 0 && k.outlasts == 0 && k.reaper.childless()
}

func (k *keeper) checkQuiet() {
	k.mu.Lock()
	defer k.mu.Unlock()
	if !k.over() {
		return
	}
	select {
	case <-k.quiet:
	default:
		close(k.quiet)
	}
}

func (k *keeper) broadcast(m *wire.Message) {
	k.mu.Lock()
	defer k.mu.Unlock()
	for l := range k.links {
		_ = l.Send(m)
	}
}

// handle carries out a runner's request. It never blocks.
func (k *keeper) handle(l *wire.Link, m *wire.Message) {
	switch m.Op {
	case wire.Environ:
		k.environ = m.Launch.Env
	case wire.Launch:
		m.Launch.Env = engine.Layered(k.environ, m.Launch.Env)
		k.launch(m.Launch)
	case wire.Stop, wire.Save:
		if a := k.find(m.UniID); a != nil {
			a.stops.Put(m)
		}
	case wire.MakeClaim:
		k.claim(l, m)
	case wire.Offer:
		if m.Claim != nil {
			k.claims.offer(m.UniID, m.Claim.Grant.UUIDs, m.Claim.To)
		}
	case wire.Withdraw:
		k.withdraw(l, m)
	case wire.Stand:
		if m.Claim != nil {
			k.claims.setProcesses(m.UniID, m.Claim.Trees, m.Claim.Left)
		}
	case wire.Ack:
		if a := k.find(m.UniID); a != nil {
			a.acknowledge()
		}
	case wire.OnGPU:
		if a := k.find(m.UniID); a != nil {
			a.onGPU(m.PIDs)
		}
	case wire.Adopt:
		a := k.find(m.UniID)
		if a == nil {
			_ = l.Send(&wire.Message{Op: wire.Unknown, UniID: m.UniID})
			return
		}
		k.claims.followed(m.UniID, l)
		if r := a.running.Load(); r != nil {
			_ = l.Send(&wire.Message{Op: wire.Running, UniID: m.UniID, Running: r})
			if b := a.leftovers.shown.Load(); b != nil {
				_ = l.Send(&wire.Message{Op: wire.Background, UniID: m.UniID, Background: b})
			}
		} // otherwise it is starting, and every runner will be notified
	}
}

func (k *keeper) find(uniID string) *attempt {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.attempts[uniID]
}

func (k *keeper) launch(l *engine.Launch) {
	a := newAttempt(k, l)
	k.mu.Lock()
	if k.attempts[l.UniID] != nil {
		k.mu.Unlock()
		return
	}
	k.attempts[l.UniID] = a
	k.mu.Unlock()
	k.claims.launched(l.UniID)
	go func() {
		ended := k.live(a)
		k.endClaim(l.UniID, ended.Stuck)
		k.forget(a)
		k.tell(&wire.Message{Op: wire.Ended, UniID: l.UniID, Running: a.unreported, Ended: ended})
		k.checkQuiet()
	}()
}

// forget drops an attempt once its record is written.
func (k *keeper) forget(a *attempt) {
	k.forest.drop(a)
	k.mu.Lock()
	delete(k.attempts, a.UniID)
	last := len(k.attempts) == 0
	k.mu.Unlock()
	if last && len(k.reaper.orphans(k.children)) > 0 {
		k.contain("ending stray processes", func() { k.endStrays(a.Grace) })
	}
}

// orphaned records which orphans have ended, and makes every attempt that waits for
// its tree look again.
func (k *keeper) orphaned(ends []end) {
	for _, e := range ends {
		if a := k.forest.formerOwner(k, e); a != nil {
			a.orphanEnded(e)
		}
	}
	for _, a := range k.liveAttempts() {
		a.kick()
	}
	k.checkQuiet()
}

// liveAttempts returns the attempts that are not over.
func (k *keeper) liveAttempts() []*attempt {
	k.mu.Lock()
	defer k.mu.Unlock()
	return slices.Collect(maps.Values(k.attempts))
}

// hasRunner reports whether a runner is connected.
func (k *keeper) hasRunner() bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	return len(k.links) > 0
}
