package session

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"runtime"
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
	"gpurun/state"
	"gpurun/state/disk"
	"gpurun/state/host"
	"gpurun/state/schema"
)

// A Config configures a run and its observers.
type Config struct {
	*Process
	*batches.Reader
	Out      io.Writer                                   // messages for the user
	Files    func() ([]string, jobspec.Options, error)   // the job files and how to read them; called before each reading
	Options  func(*jobspec.Batch) (sched.Options, error) // which jobs to run; nil runs all
	Source   *GPUs
	Abandon  string // host whose open attempts to record as lost
	Watch    bool   // keep running, and apply changes to the job files
	NoWait   bool
	Yes      bool // rerun expensive successes without asking
	LogLevel string
	Version  string      // gpurun's
	Detached *Detachment // nil for a run that is not detached

	Summed  func(error) (head string, lines []string) // formats errors in job files; nil for plain text
	Read    func(*jobspec.Batch)                      // called with the batch that was read; may be nil
	Observe func(*Run) Observers
}

// A Viewer shows a run to the user.
type Viewer interface {
	Hint(text string) // shows what the next key press does
	Print(text string)
	Warn(text string)
}

// Observers follow a run's progress.
type Observers struct {
	View   Viewer
	Sinks  []runner.Sink
	Report func(job int, uniID string) (end, errorType string) // see runner.Config.Report
	Over   func(res *schema.Result, words string)              // called with the outcome, before it is recorded in the ledger
	End    func()                                              // closes the view; may be nil
}

// A Run is a single run, from setup to end.
type Run struct {
	Config
	Batch  *jobspec.Batch
	State  *disk.State
	core   *sched.Core
	opts   sched.Options
	Prober probe.Prober // nil if no job needs a GPU
	Rules  HostRules    // set by Open
	usable int          // number of devices that the run may use
	claims *claimSet    // nil if no other run can use the GPUs
	Log    zerolog.Logger
	git    <-chan []schema.Git

	clusterJob string // ID of the surrounding cluster job, for ledgers, or ""

	Notes   []string
	closers []func()

	code     []*codecopy.Tree                       // code copies by file; nil without snapshot
	changes  *fileWatch                             // nil without --watch
	over     func(res *schema.Result, words string) // nil before jobs start
	Shuffled bool
}

// New returns a run. Open reads its files.
func New(c Config) *Run { return &Run{Config: c} }

func (r *Run) sim() bool { return r.Source.Sim != "" }

// Skip records a run with nothing to do.
func (r *Run) Skip() schema.Result {
	r.removeCopies()
	r.core.Step(runner.Now(), sched.Began{}) // decides all jobs and finishes
	res := schema.Result{Final: r.core.Snapshot(runner.Now())}
	r.recordValues(&res)
	return res
}

// Close releases the run's resources in reverse order.
func (r *Run) Close() {
	for i := len(r.closers) - 1; i >= 0; i-- {
		r.closers[i]()
	}
	r.closers = nil
}

// OnClose registers a function for Close to call.
func (r *Run) OnClose(f func()) { r.closers = append(r.closers, f) }

// Open reads the files, locks the state and determines which jobs would run. It opens the GPUs only
// if one of those jobs needs one.
func (r *Run) Open() error {
	var err error
	if err := r.load(); err != nil {
		return err
	}
	if r.opts, err = r.options(r.Batch); err != nil {
		return err
	}
	r.opts.Zone = time.Local
	batches.SetLimits(&r.opts, r.Batch)
	r.opts.Watch, r.opts.NoWait, r.opts.Sim = r.Watch, r.NoWait, r.sim()
	r.Shuffled = r.Batch.Settings.DrawShuffleSeed(func() int64 { return rand.Int64N(1e9) })
	if r.Read != nil {
		r.Read(r.Batch)
	}
	if r.State, err = r.Lock(r.Batch.RealPaths(), r.Abandon); err != nil {
		return err
	}
	r.State.Share()
	r.OnClose(func() {
		if err := r.State.Close(); err != nil {
			r.Warn(err.Error())
		}
	})
	if err := r.keepLines(r.Batch); err != nil {
		return err
	}
	r.runLog = r.State.RunLog()
	r.Log = r.logger()
	r.opts.Run, r.opts.UID = RunID(), host.CurrentUID()
	r.opts.Steady, _ = time.ParseDuration(Steady)
	r.detectAllocation()
	r.core = sched.New(r.Batch, r.State.History(), r.opts)
	r.core.Step(runner.Now(), sched.Looked{Evidence: files.Evidence(r.Batch, r.State.History(), r.opts)})
	if err := jobspec.Report(batches.CheckHost(r.Batch, r.Runs)); err != nil {
		return err
	}
	if err := batches.SameEngine(batches.EngineOf(r.Batch), r.State.History(), r.State.Dir); err != nil {
		return err
	}
	refused, notes := CheckEngine(r.Batch, r.Runs, r.sim(), r.NoWait)
	refused = append(refused, LacksCommand(r.Batch, r.Runs)...)
	if r.Notes = notes; len(refused) > 0 {
		return jobspec.Report(refused)
	}
	r.Rules = HostRulesOf(nil)
	if r.opts.Elsewhere || !WantsGPU(r.Batch, r.Runs) && !r.Watch {
		return nil
	}
	r.git = r.askGit()
	pool, err := r.openPool()
	if err != nil && r.Watch && !WantsGPU(r.Batch, r.Runs) {
		return nil // jobs added later cannot get GPUs either
	}
	if err != nil {
		return err
	}
	r.core.Use(pool)
	return nil
}

func (r *Run) logger() zerolog.Logger {
	zerolog.ErrorHandler = func(error) {} // a full disk under run.log must not flood the terminal
	level, _ := zerolog.ParseLevel(r.LogLevel)
	return zerolog.New(r.runLog).Level(level).With().Timestamp().Int("pid", os.Getpid()).Logger()
}

// Steady is how long GPUs must be busy, idle or free before a resize; "" for the default. Tests set
// it, some at link time.
var Steady string

// options returns which jobs of a batch to run.
func (r *Run) options(b *jobspec.Batch) (sched.Options, error) {
	if r.Options == nil {
		return sched.Options{}, nil
	}
	return r.Options(b)
}

// Runs reports whether a job would run.
func (r *Run) Runs(id int) bool { return r.core.Verdict(id).Run }

// NothingToRun reports whether there are neither jobs to run nor attempts to reattach to.
func (r *Run) NothingToRun() bool {
	return len(r.State.History().Open) == 0 && !slices.ContainsFunc(r.Batch.Jobs, func(j jobspec.Job) bool { return r.Runs(j.ID) })
}

// openPool opens the GPUs and reports jobs that could never run on them.
func (r *Run) openPool() (*gpu.Pool, error) {
	ctx, cancel := context.WithTimeout(context.Background(), OpenLimit)
	defer cancel()
	err := r.Source.check(ctx)
	if err != nil {
		return nil, err
	}
	if r.Prober, err = r.Source.Open(ctx, r.Log); err != nil {
		return nil, err
	}
	r.OnClose(func() { r.Prober.Close() })
	r.Rules = HostRulesOf(r.Prober)
	pool, impossible, err := PoolFor(r.Batch, r.Prober, r.Rules, r.sim(), r.NoWait, r.Runs)
	if err != nil {
		return nil, err
	}
	r.usable = len(pool.Devices())
	r.claims = claimsOf(r.Prober, r.State.Dir(0))
	r.claims.open(pool)
	return pool, jobspec.Report(impossible)
}

// Execute starts the engine, runs the batch, and returns its result.
func (r *Run) Execute() (res schema.Result, err error) {
	if r.git == nil {
		r.git = r.askGit()
	}
	if err := r.confirm(); err != nil {
		return res, err
	}
	if err := r.prepareCopies(); err != nil {
		return res, err
	}
	if err := r.Detached.redirect(r.State.Output()); err != nil {
		return res, err
	}
	if warning, fix := LogoutKills(); warning != "" {
		r.Warn(warning)
		r.Hint(fix)
	}
	if err := r.noStrayKeeper(); err != nil {
		return res, err
	}
	engine, leave, err := r.openOwn()
	if err != nil {
		return res, err
	}
	r.OnClose(func() { engine.Close() })
	calls := r.listen()
	r.remember()
	o := r.Observe(r)
	r.over = o.Over
	sig := r.catchSignals(o.View, r.onTerminal(), leave)
	r.OnClose(sig.close)
	// From here on, almost everything waits for the loop. With more threads, idle wake-ups would
	// cost a run of short jobs a tenth of its time.
	runtime.GOMAXPROCS(1)
	c := runner.Config{
		Batch: r.Batch, Core: r.core, Code: r.code, Ledger: r.State, Starts: r.runFacts(<-r.git), Prober: r.Prober, Engine: engine, Does: batches.EngineOf(r.Batch).Abilities(), Host: r.Rules.read, Spent: r.claims.spend, Rules: r.ruler, Reread: r.reread, Taken: r.State.Relock, Say: o.View.Print, Warn: o.View.Warn, Report: o.Report,
		Log: r.Log, Stops: sig.stops, Reloads: sig.again, Control: calls,
		Environ: runner.Environ(), Indexed: indexed(r.Prober), Now: runner.Now, Go: r.Go,
	}
	c.Sinks = r.sinks(o.Sinks, sig, o.View)
	res = runner.Run(context.Background(), c)
	if code := sig.code.Load(); code != 0 && res.Stopped == "" && !batches.Finished(res.Final) {
		res.Stopped = map[int32]string{batches.ExitInt: "Ctrl-C", batches.ExitTerm: "SIGTERM"}[code]
	}
	r.recordOver(&res)
	if err := r.State.Sync(); err != nil && res.StateErr == nil {
		res.StateErr = err
	}
	if o.End != nil {
		o.End()
	}
	r.CloseEngine(engine, batches.EngineOf(r.Batch))
	return res, nil
}

// indexed reports whether jobs may use the host's GPU indices. They may not if a device is hidden
// or in MIG mode.
func indexed(p probe.Prober) bool { return p == nil || p.Complete() }

// listen opens a control socket in the folder of each file.
func (r *Run) listen() <-chan *control.Call {
	calls := make(chan *control.Call)
	for i := range r.Batch.Files {
		srv, err := control.Listen(r.State.Dir(i), calls, r.Go)
		if err != nil {
			r.Warn("gpurun status and gpurun stop cannot reach this run: " + err.Error())
			continue
		}
		r.OnClose(func() { srv.Close() })
	}
	return calls
}

// load reads the job files, and watches them if requested.
func (r *Run) load() error {
	paths, o, err := r.Files()
	if err != nil {
		return err
	}
	if err := r.watchFiles(paths); err != nil {
		return err
	}
	if _, warning := batches.UserConfig(); warning != "" {
		r.Warn(warning)
	}
	r.Batch, err = r.changes.load(paths, o, r.Load)
	if m := (*runner.Mistake)(nil); errors.As(err, &m) {
		return atStart(err)
	}
	return err
}

// recordOver records the end of the run in each ledger.
func (r *Run) recordOver(res *schema.Result) {
	code := batches.ExitOf(*res, r.NoWait)
	if r.over != nil {
		r.over(res, endWords(res, code))
	}
	f := state.Fact{Kind: state.KindOver, Time: time.Now().UTC(), ExitCode: &code, Why: endWords(res, code), GPUSeconds: res.GPUHours * 3600, Lost: res.Lost}
	for i := range r.Batch.Files {
		if _, err := r.State.Append(i, f); err != nil {
			r.Log.Warn().Err(err).Msg("cannot record the end of the run")
		}
		f.Lost = nil // count the lost GPU time only once
	}
}

// endWords describes how a run ended: "all done", "stopped by SIGTERM".
func endWords(res *schema.Result, code int) string {
	switch {
	case res.Stopped != "":
		return "stopped by " + res.Stopped
	case res.StateErr != nil:
		return "its ledger could not be written"
	case res.GaveUp:
		return "gave up waiting for a GPU"
	case res.Final.Live.Draining != nil:
		return "ended early: " + *res.Final.Live.Draining
	case len(res.Final.Live.Held) > 0:
		return fmt.Sprintf("held jobs, because similar ones failed with the same error: %s", res.Final.Live.Held[0].Cause)
	case code != batches.ExitDone:
		return "jobs failed"
	}
	return "all done"
}

// Lacking describes a job that could not run because a job that it needs was left out. It returns
// "" if there is none.
func (r *Run) Lacking() string {
	for id := range r.Batch.Jobs {
		if r.core.Verdict(id).Code == schema.PlanNeedMissing && r.core.Phase(id) == state.Blocked {
			return r.Batch.Jobs[id].Name + " did not run: " + r.core.Why(runner.Now(), id)
		}
	}
	return ""
}

// GPUs returns the part of the headline about GPUs: "4 of 8 GPUs, NVML 13.3, driver 580.65".
func (r *Run) GPUs() string {
	if r.opts.Elsewhere {
		return "on " + batches.EngineOf(r.Batch).Abilities().Name
	}
	if r.Prober == nil {
		return "no GPU needed"
	}
	text := state.Count(len(r.Prober.Devices()), "GPU")
	if r.usable < len(r.Prober.Devices()) {
		text = fmt.Sprintf("%d of %s", r.usable, text)
	}
	return text + ", " + r.Prober.Version()
}

// keepLines saves the flags with which this run read its files, for later commands.
func (r *Run) keepLines(b *jobspec.Batch) error {
	for i, f := range b.Files {
		var data []byte
		if f.Lines != nil {
			data, _ = json.Marshal(f.Lines)
		}
		if err := r.State.KeepLines(i, data); err != nil {
			return batches.StateFailure(err)
		}
	}
	return nil
}
