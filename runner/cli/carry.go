package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"runtime"
	"runtime/debug"
	"slices"
	"time"

	"github.com/rs/zerolog"

	"gpurun/gpu"
	"gpurun/gpu/probe"
	"gpurun/jobspec"
	"gpurun/runner"
	"gpurun/runner/batches"
	"gpurun/runner/codecopy"
	"gpurun/runner/control"
	"gpurun/runner/files"
	"gpurun/runner/sched"
	"gpurun/runner/session"
	"gpurun/state"
	"gpurun/state/disk"
	"gpurun/state/host"
	"gpurun/state/schema"
)

// A runConfig is what a run is to do, and who is told of it.
type runConfig struct {
	*process
	*batches.Reader
	out      io.Writer                                   // for people
	files    func() ([]string, jobspec.Options, error)   // the job files, and how to read them, each time that they are read
	options  func(*jobspec.Batch) (sched.Options, error) // which jobs to run
	gpus     *session.GPUs
	abandon  string // a host whose run is given up
	watch    bool   // run what the job files say when they change
	noWait   bool
	yes      bool // do not ask before much is run again
	logLevel string
	version  string      // of gpurun
	detached *detachment // nil if its output goes where it was started

	summed  func(error) (head string, lines []string) // what is wrong with job files
	read    func(*jobspec.Batch)                      // is told what the files say
	opened  func(*run)                                // is told what is to be known before the jobs start
	observe func(*run) observers
}

// A viewer shows a run while it lasts.
type viewer interface {
	hinter
	Print(text string)
	Warn(text string)
}

// observers are told of a run.
type observers struct {
	view   viewer
	sinks  []runner.Sink
	report func(job int, uniID string) (end, errorType string) // as runner.Config.Report
	over   func(res *state.Result, words string)               // is told how the run ended, before the ledger is
	end    func()                                              // closes what shows the run
}

// A run is one run, from its setup to its end.
type run struct {
	runConfig
	batch  *jobspec.Batch
	state  *disk.State
	core   *sched.Core
	opts   sched.Options
	prober probe.Prober      // nil if no GPU is needed
	rules  session.HostRules // once known
	usable int               // devices that the run may use
	purse  *session.ClaimSet // nil if no other run can use them
	log    zerolog.Logger
	git    <-chan []commit
	began  bool // jobs could start

	within string // the cluster's job in which it is, for ledgers; or ""

	engineNotes []string
	closers     []func()

	code     []*codecopy.Tree                      // by file, that jobs run in; nil without snapshot
	changes  *fileWatch                            // nil without --watch
	over     func(res *state.Result, words string) // nil before the jobs start
	shuffled bool
}

func newRun(c runConfig) *run { return &run{runConfig: c} }

// sim reports whether the GPUs are simulated.
func (r *run) sim() bool { return r.gpus.Sim != "" }

// skip records a run that has nothing to do.
func (r *run) skip() state.Result {
	r.removeCopies()
	r.core.Step(runner.Now(), sched.Began{}) // decides every job, and finishes
	res := state.Result{Final: r.core.Snapshot(runner.Now())}
	r.recordValues(&res)
	return res
}

func (r *run) close() {
	for i := len(r.closers) - 1; i >= 0; i-- {
		r.closers[i]()
	}
	r.closers = nil
}

func (r *run) later(f func()) { r.closers = append(r.closers, f) }

// open reads the files, locks the state and finds out what would run. It opens the GPUs
// only if something that would run needs one.
func (r *run) open() error {
	var err error
	if err := r.load(); err != nil {
		return err
	}
	if r.opts, err = r.options(r.batch); err != nil {
		return err
	}
	r.opts.Watch, r.opts.NoWait, r.opts.Sim = r.watch, r.noWait, r.sim()
	r.shuffled = r.batch.Settings.DrawShuffleSeed(func() int64 { return rand.Int64N(1e9) })
	r.read(r.batch)
	if r.state, err = r.Lock(r.batch.RealPaths(), r.abandon); err != nil {
		return err
	}
	r.state.Share()
	r.later(func() {
		if err := r.state.Close(); err != nil {
			r.warn(err.Error())
		}
	})
	if err := r.keepLines(r.batch); err != nil {
		return err
	}
	r.runLog = r.state.RunLog()
	r.log = r.logger()
	r.opts.Run, r.opts.UID = session.RunID(), host.Me()
	r.opts.Steady, _ = time.ParseDuration(steady)
	r.lookAround()
	r.core = sched.New(r.batch, r.state.History(), r.opts)
	r.core.Step(runner.Now(), sched.Looked{Evidence: files.Evidence(r.batch, r.state.History(), r.opts)})
	if err := jobspec.Report(batches.CheckHost(r.batch, r.runs)); err != nil {
		return err
	}
	if err := batches.SameEngine(batches.EngineOf(r.batch), r.state.History(), r.state.Dir); err != nil {
		return err
	}
	refused, notes := session.CheckEngine(r.batch, r.runs, r.sim(), r.noWait)
	refused = append(refused, session.LacksCommand(r.batch, r.runs)...)
	if r.engineNotes = notes; len(refused) > 0 {
		return jobspec.Report(refused)
	}
	if r.opts.Elsewhere || !session.WantsGPU(r.batch, r.runs) && !r.watch {
		return nil
	}
	r.git = r.askGit()
	pool, err := r.openPool()
	if err != nil && r.watch && !session.WantsGPU(r.batch, r.runs) {
		return nil // there are none for later jobs either
	}
	if err != nil {
		return err
	}
	r.core.Use(pool)
	return nil
}

// logger returns the logger of run.log.
func (r *run) logger() zerolog.Logger {
	zerolog.ErrorHandler = func(error) {} // a full disk under run.log must not flood the terminal
	level, _ := zerolog.ParseLevel(r.logLevel)
	return zerolog.New(r.runLog).Level(level).With().Timestamp().Int("pid", os.Getpid()).Logger()
}

// steady is how long GPUs must have been busy, idle or free for a resize; 0 for the usual
// time. Tests cannot wait for that, and set it, some when they link.
var steady string

// runs reports whether a job would run.
func (r *run) runs(id int) bool { return r.core.Verdict(id).Run }

// nothing reports whether there is nothing to run and nothing to adopt.
func (r *run) nothing() bool {
	return len(r.state.History().Open) == 0 && !slices.ContainsFunc(r.batch.Jobs, func(j jobspec.Job) bool { return r.runs(j.ID) })
}

// openPool opens the GPUs, and reports jobs that could never run on any of them.
func (r *run) openPool() (*gpu.Pool, error) {
	ctx, cancel := context.WithTimeout(context.Background(), session.OpenLimit)
	defer cancel()
	err := r.gpus.Check(ctx)
	if err != nil {
		return nil, err
	}
	if r.prober, err = r.gpus.Open(ctx, r.log); err != nil {
		return nil, err
	}
	r.later(func() { r.prober.Close() })
	r.rules = session.HostRulesOf(r.prober)
	pool, impossible, err := session.PoolFor(r.batch, r.prober, r.rules, r.sim(), r.noWait, r.runs)
	if err != nil {
		return nil, err
	}
	r.usable = len(pool.Devices())
	r.purse = session.ClaimsOf(r.prober, r.state.Dir(0))
	r.purse.Open(pool)
	return pool, jobspec.Report(impossible)
}

// carry starts the engine, hands everything to the runner, and returns how the run went.
func (r *run) carry() (res state.Result, err error) {
	if r.git == nil {
		r.git = r.askGit()
	}
	if r.prober == nil {
		r.rules = session.HostRulesOf(nil)
	}
	r.opened(r)
	if err := r.confirm(); err != nil {
		return res, err
	}
	if err := r.prepareCopies(); err != nil {
		return res, err
	}
	if err := r.detached.settle(r.state.Output()); err != nil {
		return res, err
	}
	if session.LogoutKills() {
		r.warn(session.LogoutWarning)
		r.hint(session.LogoutHint)
	}
	if err := r.noStrayKeeper(); err != nil {
		return res, err
	}
	engine, leave, err := r.openOwn()
	if err != nil {
		return res, err
	}
	r.later(func() { engine.Close() })
	calls := r.listen()
	r.began = true
	r.remember()
	o := r.observe(r)
	r.over = o.over
	sig := r.catchSignals(o.view, r.onTerminal(), leave)
	r.later(sig.close)
	// From here on nearly everything waits for the loop, and idle wake-ups of threads would
	// cost a run of short jobs a tenth of its time, the jobs' own included.
	runtime.GOMAXPROCS(1)
	debug.SetGCPercent(400) // of a heap that is small, or bounded by softMemory
	c := runner.Config{
		Batch: r.batch, Core: r.core, Code: r.code, Ledger: r.state, Starts: r.runFacts(<-r.git), Prober: r.prober, Engine: engine, Does: batches.EngineOf(r.batch).Abilities(), Host: r.rules.Read, Spent: r.purse.Spend, Rules: r.ruler, Reread: r.reread, Taken: r.state.Relock, Say: o.view.Print, Warn: o.view.Warn, Report: o.report,
		Log: r.log, Stops: sig.stops, Reloads: sig.again, Control: calls,
		Environ: runner.Environ(), Indexed: indexed(r.prober), Now: runner.Now, Go: r.goSafely,
	}
	c.Sinks = r.sinks(o.sinks, sig, o.view)
	res = runner.Run(context.Background(), c)
	if code := sig.code.Load(); code != 0 && res.Stopped == "" && !finished(res.Final) {
		res.Stopped = map[int32]string{batches.ExitInt: "Ctrl-C", batches.ExitTerm: "SIGTERM"}[code]
	}
	r.recordOver(&res)
	if err := r.state.Sync(); err != nil && res.StateErr == nil {
		res.StateErr = err
	}
	o.end()
	r.part(engine, batches.EngineOf(r.batch))
	return res, nil
}

// indexed reports whether jobs may get the host's indices, since no device is hidden and none in MIG mode.
func indexed(p probe.Prober) bool { return p == nil || p.Complete() }

// listen lets other commands reach the run, through the folder of every file.
func (r *run) listen() <-chan *control.Call {
	calls := make(chan *control.Call)
	for i := range r.batch.Files {
		srv, err := control.Listen(r.state.Dir(i), calls, r.goSafely)
		if err != nil {
			r.warn("gpurun status and gpurun stop cannot reach this run: " + err.Error())
			continue
		}
		r.later(func() { srv.Close() })
	}
	return calls
}

// load reads the job files, and watches them if that is wanted.
func (r *run) load() error {
	paths, o, err := r.files()
	if err != nil {
		return err
	}
	if err := r.watchFiles(paths); err != nil {
		return err
	}
	if _, warning := batches.UserConfig(); warning != "" {
		r.warn(warning)
	}
	r.batch, err = r.changes.load(paths, o, r.Load)
	if m := (*runner.Mistake)(nil); errors.As(err, &m) {
		return atStart(err)
	}
	return err
}

// recordOver records how the run ended, in every ledger.
func (r *run) recordOver(res *state.Result) {
	code := batches.ExitOf(*res, r.noWait)
	if r.over != nil {
		r.over(res, endWords(res, code))
	}
	f := state.Fact{Kind: state.KindOver, Time: time.Now().UTC(), ExitCode: &code, Why: endWords(res, code), Lost: res.Lost}
	for i := range r.batch.Files {
		if _, err := r.state.Append(i, f); err != nil {
			r.log.Warn().Err(err).Msg("cannot record the end of the run")
		}
		f.Lost = nil // what the run lost counts once
	}
}

// endWords says how a run ended: "all done", "stopped by SIGTERM".
func endWords(res *state.Result, code int) string {
	switch {
	case res.Stopped != "":
		return "stopped by " + res.Stopped
	case res.StateErr != nil:
		return "its ledger could not be written"
	case res.GaveUp:
		return "gave up waiting for a GPU"
	case res.Final.Draining != "":
		return "ended early: " + res.Final.Draining
	case len(res.Final.Held) > 0:
		return fmt.Sprintf("held back jobs whose like failed alike: %s", res.Final.Held[0].Cause)
	case code != batches.ExitDone:
		return "jobs failed"
	}
	return "all done"
}

// lacking names a job that could not run because one that it needs was left out, or is "".
func (r *run) lacking() string {
	for id := range r.batch.Jobs {
		if r.core.Verdict(id).Code == schema.PlanNeedMissing {
			return r.batch.Jobs[id].Name + " did not run: " + r.core.Why(runner.Now(), id)
		}
	}
	return ""
}

// finished reports whether no job is left or was interrupted.
func finished(s state.Snapshot) bool {
	for phase, n := range s.Counts {
		if n > 0 && (!phase.Ended() || phase == state.Interrupted) {
			return false
		}
	}
	return true
}
