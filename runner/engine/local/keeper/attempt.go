package keeper

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"

	"gpurun/runner/configcopy"
	"gpurun/runner/engine"
	"gpurun/runner/engine/local/wire"
	"gpurun/runner/engine/procs"
	"gpurun/state"
	"gpurun/state/host"
)

// An attempt covers one launch, from its status record to the end of its whole tree. One
// goroutine runs it. Other goroutines talk to it through its channels.
type attempt struct {
	engine.Launch
	k          *keeper
	running    atomic.Pointer[engine.Running] // nil until its first process exists
	unreported *engine.Running                // the start, until it is reported to the runner
	inbox
	resources
	commands

	rec        wire.Record
	oomBase    uint64
	cores      *unix.CPUSet // cores it is bound to; nil for any
	timeout    procs.Alarm
	saving     procs.Alarm // when its time to save its work ends
	ending     procs.Ending
	outOfSpace bool // it never started for lack of disk space
	suspended  bool
	leftovers  leftovers
}

// An inbox holds requests to an attempt.
type inbox struct {
	stops *engine.Mailbox[*wire.Message]
	kicks chan struct{}
	acks  chan struct{}
	mu    sync.Mutex
}

// resources are the files and locks that an attempt keeps while it runs.
type resources struct {
	file     *os.File // the journal, or the file of the record
	made     bool     // the record is on disk
	out      outputs
	config   io.Closer     // protects its config file from replacement; nil without one
	dev, ino atomic.Uint64 // device and inode of the log
}

// commands tracks an attempt's commands.
type commands struct {
	leader procs.ID      // leader of the current or last command
	exit   <-chan end    // nil while no command runs
	cpu    time.Duration // used by all commands
	last   uint64        // reaper round in which the last command ended
}

func newAttempt(k *keeper, l *engine.Launch) *attempt {
	if engine.Variable(l.Env, procs.UniIDName) == "" { // so that its tree can be found by its uni_id alone
		l.Env = append(l.Env, procs.UniIDName+"="+l.UniID)
	}
	return &attempt{
		Launch: *l, k: k,
		inbox: inbox{stops: engine.NewMailbox[*wire.Message](), kicks: make(chan struct{}, 1), acks: make(chan struct{}, 1)},
	}
}

func (a *attempt) acknowledge() { engine.Poke(a.acks) }
func (a *attempt) kick()        { engine.Poke(a.kicks) }

// log identifies the log file. For some processes, only the log that they write to shows which
// attempt they belong to.
func (a *attempt) log() (dev, ino uint64) { return a.dev.Load(), a.ino.Load() }

// run runs the attempt from start to end. The result is also in the record.
func (a *attempt) run() *state.End {
	err := a.retryWhileScarce(a.acquire)
	if !a.made {
		return &state.End{ExitCode: -1, At: time.Now(), Err: err.Error(), NoRoom: host.NoRoom(err)}
	}
	defer a.release()
	if err != nil {
		a.rec.Err, a.outOfSpace = err.Error(), host.NoRoom(err)
		return a.finish()
	}
	defer a.out.close()
	for i, argv := range a.steps() {
		a.takeStops()
		if a.ending.On() {
			if i == 0 {
				a.rec.Err = "stopped before it started"
			}
			break
		}
		if err := a.retryWhileScarce(func() error { return a.step(i, argv) }); err != nil {
			a.notStarted(i, err)
			break
		}
		if a.follow(); a.rec.ExitCode != 0 || a.rec.Signal != "" {
			break
		}
	}
	a.clear()
	return a.finish()
}

// prepare creates the status record. Nothing starts without one.
func (a *attempt) prepare() error {
	a.oomBase = a.k.oom.before()
	a.rec = wire.Record{
		State: wire.StateOpen, UniID: a.UniID, Steps: len(a.steps()), Tree: a.Tree,
		End: state.End{ExitCode: -1, Started: time.Now()}, Timeout: a.Timeout, OnTimeout: a.TimeoutSignal, Grace: a.Grace, Boot: host.Boottime(), BootID: host.BootID(), Slot: a.Slot, Of: wire.OriginOf(&a.Launch),
	}
	var err error
	if a.file, err = a.k.record(a.Dir, a.Slot); err != nil {
		return err
	}
	if has := make([]byte, state.SlotSize); a.Slot.Journal != "" && !a.made {
		n, _ := a.file.ReadAt(has, int64(a.Slot.N)*state.SlotSize)
		if _, twice := state.Slots(has[:n])[a.UniID]; twice {
			return fmt.Errorf("the attempt already has a record in %q", a.file.Name())
		}
	}
	if err = a.put(); err != nil {
		return fmt.Errorf("cannot write the status record in %q: %w", a.file.Name(), err)
	}
	a.made = true
	return nil
}

// record returns the open file that holds a record. Attempts with records in the same file share
// it.
func (k *keeper) record(dir string, s state.Slot) (*os.File, error) {
	path := cmp.Or(s.Journal, dir)
	if f, ok := k.records.Load(path); ok && linked(f.(*os.File)) {
		return f.(*os.File), nil
	}
	f, err := wire.OpenRecord(dir, s)
	if err == nil {
		k.records.Store(path, f)
	}
	return f, err
}

// linked reports whether a file still has a name. Without one, readers cannot find it.
func linked(f *os.File) bool {
	var st unix.Stat_t
	return unix.Fstat(int(f.Fd()), &st) == nil && st.Nlink > 0
}

// put overwrites the attempt's record.
func (a *attempt) put() error { return a.rec.Put(a.file) }

// acquire opens the attempt's resources. If descriptors are scarce, it closes what it has opened,
// because other attempts need descriptors in order to end.
func (a *attempt) acquire() error {
	err := a.prepare()
	if err != nil {
		return err
	}
	if err = a.open(); err == nil && a.k.lastDescriptors(a.out.out, a.out.err) {
		a.out.close()
		err = fmt.Errorf("cannot open its files: %w", unix.EMFILE)
	}
	if host.OutOfFiles(err) {
		a.release()
	}
	return err
}

// open opens the files that the attempt reads and writes. It checks the working directory here
// because a hung file system would hold up every other start if a child were the first to touch it.
func (a *attempt) open() error {
	var st unix.Stat_t
	if err := unix.Stat(a.WorkDir, &st); err != nil {
		return fmt.Errorf("cannot enter the working directory %q: %w", a.WorkDir, err)
	}
	var err error
	if a.Config != "" {
		if a.config, err = configcopy.Hold(a.Config, a.ConfigLock, a.ConfigSum); err != nil {
			return err
		}
	}
	if a.out, err = openOutputs(a.Stdout, a.Stderr, a.Header); err != nil {
		return err
	}
	dev, ino := a.out.inode()
	a.dev.Store(dev)
	a.ino.Store(ino)
	if a.cores, err = bound(a.Cores); err != nil {
		a.k.warn([]string{err.Error()}) // the runner shows each warning only once
	}
	return nil
}

// release allows other processes to replace the attempt's config file again.
func (a *attempt) release() {
	if a.config != nil {
		_ = a.config.Close()
	}
}

// steps returns the programs to run, one after another.
func (a *attempt) steps() [][]string {
	shell := a.Shell
	if len(shell) == 0 {
		shell = []string{"/bin/sh", "-c"}
	}
	steps := make([][]string, len(a.Commands))
	for i, c := range a.Commands {
		steps[i] = slices.Concat(shell, []string{c})
	}
	return steps
}

// step starts command i.
func (a *attempt) step(i int, argv []string) error {
	path, err := a.k.program(argv[0], a.WorkDir, engine.Variable(a.Env, "PATH"))
	if err != nil {
		return err
	}
	started, boot := time.Now(), host.Boottime()
	if i == 0 {
		a.rec.Started, a.rec.Boot = started, boot
	}
	a.rec.Begun, a.rec.Latest, a.rec.Roots = i+1, started, append(a.rec.Roots, procs.ID{})
	var p procs.ID
	var exit <-chan end
	if err = a.begin(); err == nil {
		files := []uintptr{uintptr(a.k.null), uintptr(a.out.out), uintptr(a.out.err)}
		p, exit, err = a.k.start(a, &program{path: path, argv: argv, env: a.Env, dir: a.WorkDir, files: files, cores: a.cores})
	}
	if err != nil { // nothing ran, and the command may be started again
		a.rec.Begun, a.rec.Roots = i, a.rec.Roots[:i]
		_ = a.put()
		return err
	}
	a.leader, a.exit, a.rec.Roots[i] = p, exit, p
	_ = a.put() // if this fails, p is found by the uni_id in its environment
	r := &engine.Running{PID: p.PID, PIDStart: p.Start, Started: started}
	if i > 0 {
		a.send(&wire.Message{Op: wire.Step, UniID: a.UniID, Running: r})
		return nil
	}
	a.running.Store(r)
	if a.Timeout > 0 {
		a.timeout.Set(boot + a.Timeout)
	}
	a.unreported = r
	return nil
}

// sendWithin is how long to delay the report that an attempt is running. If the attempt ends
// sooner, a single message reports its start and end.
const sendWithin = 50 * time.Millisecond

// send sends a message about the attempt, after any unreported Running.
func (a *attempt) send(m *wire.Message) {
	a.sendRunning()
	a.k.tell(m)
}

func (a *attempt) sendRunning() {
	if a.unreported != nil {
		a.k.tell(&wire.Message{Op: wire.Running, UniID: a.UniID, Running: a.unreported})
		a.unreported = nil
	}
}

// errForbidden reports that a recovering runner has forbidden the command to begin.
var errForbidden = errors.New("a later run cancelled its start")

// begin records that the next command begins. If the keeper is killed before it records the
// process, the uni_id in the process's environment identifies it.
func (a *attempt) begin() error {
	if err := a.put(); err != nil {
		return fmt.Errorf("cannot record the start in %q: %w", a.file.Name(), err)
	}
	if wire.Forbidden(a.Dir) || !linked(a.file) { // in this order: see sweep in state/disk
		return errForbidden
	}
	return nil
}

// Exit statuses of a shell for a program that it cannot execute or find.
const (
	exitNotExecutable = 126
	exitNotFound      = 127
)

// notStarted records why command i could not be started.
func (a *attempt) notStarted(i int, err error) {
	a.rec.ExitCode, a.rec.Signal = -1, ""
	if errors.Is(err, errForbidden) {
		a.rec.Lost, a.rec.Void = true, i == 0
		return
	}
	a.outOfSpace = i == 0 && host.NoRoom(err)
	a.rec.Err = err.Error()
	var e *execError
	if errors.As(err, &e) {
		a.rec.ExitCode = exitNotExecutable
		if errors.Is(err, unix.ENOENT) || errors.Is(err, unix.ENOTDIR) {
			a.rec.ExitCode = exitNotFound
		}
		a.out.say("gpurun: " + err.Error() + "\n")
	}
}

// follow waits for the current command to end, handling stops and the timeout.
func (a *attempt) follow() {
	late := time.After(sendWithin)
	for {
		select {
		case <-late:
			a.sendRunning()
		case e := <-a.exit:
			a.commandEnded(e)
			if a.saving.On() { // end leftover processes, and start no further command
				a.stopAfterSave()
			}
			return
		case <-a.stops.Poked:
			a.takeStops()
		case <-a.timeout.C():
			if a.timeout.Due() {
				a.timedOut()
			}
		case <-a.saving.C():
			if a.saving.Due() {
				a.stopAfterSave()
			}
		case <-a.ending.Look():
			a.signalTree()
			if len(a.rec.Stuck) > 0 {
				a.rec.ExitCode, a.rec.Signal, a.rec.At, a.rec.Elapsed = -1, "", time.Now(), host.Boottime()-a.rec.Boot
				return
			}
		}
	}
}

func (a *attempt) commandEnded(e end) {
	a.exit = nil
	a.last = e.round
	a.cpu += e.cpu
	a.rec.PeakHost = max(a.rec.PeakHost, e.rss)
	a.rec.At, a.rec.Elapsed = time.Now(), host.Boottime()-a.rec.Boot
	a.status(e.status)
}

// status records a wait status as the attempt's own.
func (a *attempt) status(st unix.WaitStatus) {
	a.rec.ExitCode, a.rec.Signal = st.ExitStatus(), ""
	if st.Signaled() {
		a.rec.ExitCode, a.rec.Signal = -1, cmp.Or(unix.SignalName(st.Signal()), st.Signal().String()) // real-time signals have no name
	}
	// A shell reports a SIGKILL of its command as an exit status.
	killed := a.rec.Signal == "SIGKILL" || a.rec.ExitCode == 128+int(unix.SIGKILL)
	a.rec.OOMKilled = killed && !a.ending.Killed() && a.k.oom.now() > a.oomBase
}

func (a *attempt) takeStops() {
	for _, r := range a.stops.Take() {
		switch r.Op {
		case wire.Save:
			a.requestSave(r)
		case wire.Suspend:
			a.suspend()
		case wire.Resume:
			a.resume()
		default:
			a.stop(r.Why, r.How)
		}
	}
}

// finish saves the end to disk and returns it.
func (a *attempt) finish() *state.End {
	a.rec.State = wire.StateOver
	if a.rec.At.IsZero() {
		a.rec.At = time.Now()
	}
	if a.Tree || a.rec.Behind {
		a.rec.At, a.rec.Elapsed = time.Now(), host.Boottime()-a.rec.Boot // the job lasts as long as its processes
	}
	if a.Tree {
		a.rec.Report = a.report()
	}
	a.mu.Lock()
	a.rec.PeakHost = max(a.rec.PeakHost, a.leftovers.rss)
	a.mu.Unlock()
	if a.k.peaks != nil {
		a.rec.Peaks, a.rec.Readings = a.k.peaks()
	}
	unsaved := a.save()
	ended := a.rec.End
	ended.NoRoom, ended.Unsaved = a.outOfSpace, unsaved
	return &ended
}
