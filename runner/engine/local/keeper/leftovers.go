package keeper

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"

	"gpurun/gpu"
	"gpurun/runner/engine"
	"gpurun/runner/engine/local/wire"
	"gpurun/runner/engine/procs"
	"gpurun/state/host"
)

// The job file decides what happens to processes that outlive an attempt's last command
// (leftovers). The default depends on the job. If all its commands ended with 0 and used next to no
// CPU, it was a launcher, as in "nohup python train.py &", and its leftover processes are the job.
// Those of any other job are ended, so that a crashed rank 0 does not keep its hung ranks alive.

// launcherCPU is the most CPU time that a launcher's commands may use.
const launcherCPU = 10 * time.Second

// launcherSettle is how long processes left by a launcher without GPUs may take to finish their
// output. After that they are ended, which fails the job.
const launcherSettle = 3 * time.Second

// Limits are times that tests shorten, or lengthen for a busy machine.
type Limits struct {
	OnGPUWithin time.Duration // for processes left by a launcher to appear on a GPU
	Served      time.Duration // the least time for a script to start a server for its own use, use it and end it
	Dismissal   time.Duration // how soon after the last command such a server must end
}

// Usual are the limits of every keeper outside tests.
var Usual = Limits{OnGPUWithin: 10 * time.Minute, Served: 2 * time.Second, Dismissal: 10 * time.Second}

// maxEnded bounds the orphans of an attempt that are remembered; the newest are kept.
const maxEnded = 2000

// leftovers tracks the processes that outlive an attempt's commands.
type leftovers struct {
	shown   atomic.Pointer[engine.Background] // nil until only leftover processes keep the attempt running
	seen    map[procs.ID]bool                 // processes seen on its GPUs, and their ancestors; guarded by attempt.mu
	ended   []end                             // newest orphans; guarded by attempt.mu
	cpu     time.Duration                     // used by all orphans; guarded by attempt.mu
	rss     gpu.Bytes                         // peak memory of the largest orphan; guarded by attempt.mu
	filters map[procs.ID]bool                 // whether each process only reads the job's output
	idle    time.Duration                     // how long nothing was on a GPU while a runner watched
	looked  time.Duration                     // CLOCK_BOOTTIME of the last look
}

// onGPU records processes that were seen on the attempt's GPUs, and their ancestors up to the
// keeper's own child, the only one whose exit status the keeper gets.
func (a *attempt) onGPU(pids []int) {
	self := os.Getpid()
	for _, pid := range pids {
		for range 64 {
			p, ok := procs.One(pid)
			if !ok || p.PID == self || p.Parent <= 1 {
				break
			}
			a.mu.Lock()
			if a.leftovers.seen == nil {
				a.leftovers.seen = map[procs.ID]bool{}
			}
			a.leftovers.seen[p.ID] = true
			a.mu.Unlock()
			pid = p.Parent
		}
	}
	a.kick()
}

func (a *attempt) orphanEnded(e end) {
	a.mu.Lock()
	defer a.mu.Unlock()
	b := &a.leftovers
	if len(b.ended) >= maxEnded {
		b.ended = append(b.ended[:0], b.ended[maxEnded/2:]...)
	}
	e.at = host.Boottime()
	b.ended = append(b.ended, e)
	b.cpu, b.rss = b.cpu+e.cpu, max(b.rss, e.rss)
}

// launcher reports whether the attempt's commands only started something else.
func (a *attempt) launcher() bool {
	if a.Leftovers != engine.LeftoversAuto || a.rec.ExitCode != 0 || a.rec.Signal != "" || a.rec.Err != "" || a.rec.Lost {
		return false
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.cpu+a.leftovers.cpu < launcherCPU
}

// clear waits until nothing of the tree is left, and ends processes that may not keep
// running.
func (a *attempt) clear() {
	if a.leader.PID == 0 || a.exit != nil {
		return
	}
	launcher := a.launcher()
	goesOn := a.Tree || a.Leftovers == engine.LeftoversWait || launcher && len(a.Grant.UUIDs) > 0
	settle := procs.SettleTime
	if launcher {
		settle = launcherSettle
	}
	var since time.Duration // when a look first found leftover processes
	for {
		left := a.k.left(a)
		if len(left) == 0 {
			break
		}
		now := host.Boottime()
		if since == 0 {
			since = now
			a.sendRunning()
		}
		a.noteFilters(left, now)
		switch {
		case a.ending.On():
			if a.ending.Kills() {
				left = a.k.freezeTree(a)
			}
			if a.signal(left); a.ending.Stuck() {
				return
			}
		case goesOn && (a.Tree || a.keepRunning(left, launcher)):
			a.ending.Again(procs.TreeLook)
		case goesOn || now >= since+settle:
			a.endLeftovers(left, launcher)
			continue
		default:
			a.ending.Again(procs.SettleTime / 2)
		}
		a.idle()
	}
	onlyLaunches := len(a.Grant.UUIDs) > 0 || a.rec.Elapsed < a.k.limits.Served
	if launcher && onlyLaunches || a.Leftovers == engine.LeftoversWait {
		a.takeLeftoverStatus()
	}
}

// endLeftovers begins to end the attempt's leftover processes.
func (a *attempt) endLeftovers(left []procs.ID, launcher bool) {
	what := procs.Describe(left)
	switch {
	case launcher && a.rec.Behind:
		a.rec.LeftRunning = fmt.Sprintf("%s ran in the background and used no GPU within %s; end the script with \"wait\", or set leftovers: wait", what, a.k.limits.OnGPUWithin)
	case launcher:
		a.rec.LeftRunning = fmt.Sprintf("%s was still running in the background; end the script with \"wait\", or set leftovers: wait", what)
	case a.Leftovers == engine.LeftoversFail:
		a.rec.LeftRunning = fmt.Sprintf("%s was still running (leftovers: fail)", what)
	case a.Leftovers != engine.LeftoversKill:
		a.rec.LeftOver = len(left)
	}
	a.ending.Begin(a.Grace)
}

// keepRunning keeps the attempt running for its leftover processes. It returns false once they
// have had enough time to appear on a GPU and none has.
func (a *attempt) keepRunning(left []procs.ID, launcher bool) bool {
	b := &a.leftovers
	now := host.Boottime()
	if !a.rec.Behind {
		a.rec.Behind = true
		_ = a.put() // so that a runner can wait for the attempt even if this keeper is gone
		b.looked = now
		return true // reported from the next look on
	}
	first := a.mainLeftover(left)
	if shown := (engine.Background{PID: first.PID, Text: procs.Describe(left, first)}); b.shown.Load() == nil || *b.shown.Load() != shown {
		b.shown.Store(&shown)
		a.send(&wire.Message{Op: wire.Background, UniID: a.UniID, Background: &shown})
	}
	if !launcher || a.anyOnGPU() || usesCUDA(left) {
		b.idle, b.looked = 0, now
		return true
	}
	if a.k.hasRunner() {
		b.idle += now - b.looked
	}
	b.looked = now
	return b.idle < a.k.limits.OnGPUWithin
}

// noteFilters records which of the first leftover processes only read the job's output.
func (a *attempt) noteFilters(left []procs.ID, now time.Duration) {
	b := &a.leftovers
	if b.filters == nil {
		b.filters = map[procs.ID]bool{}
		for _, id := range left {
			b.filters[id] = filter(id.PID)
		}
	} else if now < a.rec.Boot+a.rec.Elapsed+launcherSettle {
		for id, is := range b.filters { // a process that had just been forked has its pipe by now
			b.filters[id] = is || filter(id.PID)
		}
	}
}

// anyOnGPU reports whether any background process was seen on a GPU.
func (a *attempt) anyOnGPU() bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	for id := range a.leftovers.seen {
		if id != a.leader && (procs.Alive(id) || a.endedAfterCommands(id)) {
			return true
		}
	}
	return false
}

// endedAfterCommands reports whether an orphan ended after the commands. a.mu is held.
func (a *attempt) endedAfterCommands(id procs.ID) bool {
	return slices.ContainsFunc(a.leftovers.ended, func(e end) bool { return e.ID == id && e.round >= a.last })
}

// takeLeftoverStatus makes the first failure of a background process the attempt's own. Only
// processes seen on a GPU count. If none was seen there, all but filters count, because a training
// job may fail before it reaches the GPU.
func (a *attempt) takeLeftoverStatus() {
	if a.ending.On() || a.rec.ExitCode != 0 || a.rec.Signal != "" {
		return
	}
	a.k.reaper.reap()
	used := a.anyOnGPU()
	a.mu.Lock()
	defer a.mu.Unlock()
	for _, e := range a.leftovers.ended {
		switch {
		case e.round < a.last || e.status == 0 || a.dismissed(e):
		case used && a.leftovers.seen[e.ID], !used && a.statusCounts(e):
			a.status(e.status)
			return
		}
	}
}

// dismissed reports whether an orphan ended like a server that the script started for
// its own use and killed as its last step. That is not a failure. A script that uses a GPU takes
// some time for that; one that ends earlier is a launcher.
func (a *attempt) dismissed(e end) bool {
	if len(a.Grant.UUIDs) > 0 && a.rec.Elapsed < a.k.limits.Served || e.at > a.rec.Boot+a.rec.Elapsed+a.k.limits.Dismissal {
		return false
	}
	if e.status.Signaled() {
		switch e.status.Signal() {
		case unix.SIGTERM, unix.SIGINT, unix.SIGHUP, unix.SIGPIPE:
			return true
		case unix.SIGKILL:
			return a.k.oom.now() == a.oomBase
		}
		return false
	}
	code := e.status.ExitStatus()
	return code == 128+int(unix.SIGTERM) || code == 128+int(unix.SIGINT) || code == 128+int(unix.SIGPIPE)
}

// statusCounts reports whether the status of an orphan counts for an attempt that was never seen on
// a GPU. If the orphan ended before it could be inspected, its status counts only if it is one that
// filters never exit with.
func (a *attempt) statusCounts(e end) bool {
	if is, known := a.leftovers.filters[e.ID]; known {
		return !is
	}
	code := e.status.ExitStatus()
	return code == exitNotExecutable || code == exitNotFound
}

// filter reports whether a process reads from a pipe, as "tee" in ">(tee log)" does.
func filter(pid int) bool {
	in, err := os.Readlink("/proc/" + strconv.Itoa(pid) + "/fd/0")
	return err == nil && strings.HasPrefix(in, "pipe:")
}

// usesCUDA reports whether any of these processes has a CUDA context. In a container, NVML may
// report other pids than those seen here.
func usesCUDA(ids []procs.ID) bool {
	for _, id := range ids {
		names, _ := filepath.Glob("/proc/" + strconv.Itoa(id.PID) + "/fd/*")
		for _, name := range names {
			if to, err := os.Readlink(name); err == nil && to == "/dev/nvidia-uvm" {
				return true
			}
		}
	}
	return false
}

// mainLeftover returns the process to name first: one that was seen on a GPU, or else the
// oldest.
func (a *attempt) mainLeftover(ids []procs.ID) procs.ID {
	a.mu.Lock()
	defer a.mu.Unlock()
	seen := slices.DeleteFunc(slices.Clone(ids), func(id procs.ID) bool { return !a.leftovers.seen[id] })
	if len(seen) > 0 {
		ids = seen
	}
	return slices.MinFunc(ids, procs.ID.Compare)
}
