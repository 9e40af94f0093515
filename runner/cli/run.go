package cli

import (
	"context"
	"fmt"
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
	"gpurun/runner/terminal"
	"gpurun/runner/uniid"
	"gpurun/state"
	"gpurun/state/disk"
	"gpurun/state/host"
)

type runCmd struct {
	jobFlags `embed:""`
	simFlag  `embed:""`
	DryRun   bool   `short:"n" help:"Start nothing, show what would run (gpurun plan)."`
	Verbose  bool   `short:"v" help:"With -n: also show every setting and its source, and what each job runs and needs."`
	Abandon  string `placeholder:"HOST" help:"Record as lost what a run on HOST left open; use it only if that machine is gone."`
	Detach   bool   `short:"d" help:"Run in the background, with its output in run.out in the state folder. Returns once the run has begun, or with the error."`
	Watch    bool   `help:"Do not exit when all is done, but wait for the job files to change, and run what they then say."`
	Yes      bool   `short:"y" help:"Do not ask before rerunning successes that took more than a GPU hour."`
	NoWait   bool   `help:"Exit with 75 if no GPU is free right away."`
	JSON     bool   `name:"json" help:"Print the run's events as lines of JSON, as gpurun events does, instead of what people read."`
}

// Help returns the command's description and examples.
func (runCmd) Help() string {
	return `Jobs that are up to date do not run again; "gpurun plan" shows why the others would. The first Ctrl-C starts nothing more, the second stops the jobs, the third kills them.

Exit status: 0 all done, 1 a job failed, 2 bad files or arguments, 4 the state cannot be used (e.g. the file is already running), 75 no GPU free with --no-wait, 124 no GPU within max_wait, 130 or 143 interrupted, 70 internal error.

Examples:

    gpurun jobs.yaml
    gpurun --max-concurrent 4 --min-memory 8000 jobs.yaml
    gpurun --sim 4x24GiB jobs.yaml                 simulated GPUs
    gpurun --only 'train-*' --force jobs.yaml      rerun these, done or not
    gpurun --lines cmds.txt -m 8GiB -j 4           every line of cmds.txt is a job
    gpurun run -d jobs.yaml                        keeps running after logout`
}

// Run runs the batch.
func (c *runCmd) Run(a *app) error {
	if c.DryRun {
		return (&planCmd{jobFlags: c.jobFlags, Verbose: c.Verbose, JSON: c.JSON}).Run(a)
	}
	paths, err := a.paths(&c.batchFlags)
	if err != nil {
		return err
	}
	d := newDetachment()
	if c.JSON {
		if err := c.eventsOnly(a); err != nil {
			return err
		}
	}
	if c.Detach && d == nil {
		return c.detach(a)
	}
	goOnWithoutReader()
	r := &run{app: a, cmd: c, detached: d, head: newHeadline(a.out, paths)}
	defer r.leave()
	if err := r.watchFiles(paths); err != nil {
		return err
	}
	if err := r.open(); err != nil {
		r.head.abandon()
		return err
	}
	if r.nothing() && !c.Watch {
		r.head.end("nothing to do")
		r.tellWarnings()
		r.removeCopies()
		r.core.Step(runner.Now(), sched.Began{}) // decides every job, and finishes
		res := state.Result{Final: r.core.Snapshot(runner.Now())}
		r.recordValues(&res)
		return r.summary(res, func() {})
	}
	return r.carry()
}

// run is one run, from its setup to its end.
type run struct {
	*app
	cmd    *runCmd
	head   *headline
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

	code     []*codecopy.Tree // by file, that jobs run in; nil without snapshot
	files    *fileWatch       // nil without --watch
	detached *detachment      // nil if its output goes where it was started
	news     *news            // nil if nobody wants them
	shuffled bool
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
	if r.batch, err = r.load(&r.cmd.batchFlags, r.files); err != nil {
		return err
	}
	if r.opts, err = r.cmd.options(r.batch); err != nil {
		return err
	}
	r.opts.Watch = r.cmd.Watch
	r.opts.NoWait, r.opts.Sim = r.cmd.NoWait, r.cmd.Sim != ""
	r.shuffled = r.batch.Settings.DrawShuffleSeed(func() int64 { return rand.Int64N(1e9) })
	r.head.batch(r.batch)
	if r.state, err = r.Lock(realPaths(r.batch), r.cmd.Abandon); err != nil {
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
	refused, notes := session.CheckEngine(r.batch, r.runs, r.cmd.Sim != "", r.cmd.NoWait)
	refused = append(refused, session.LacksCommand(r.batch, r.runs)...)
	if r.engineNotes = notes; len(refused) > 0 {
		return jobspec.Report(refused)
	}
	if r.opts.Elsewhere || !session.WantsGPU(r.batch, r.runs) && !r.cmd.Watch {
		return nil
	}
	r.git = r.askGit()
	pool, err := r.openPool()
	if err != nil && r.cmd.Watch && !session.WantsGPU(r.batch, r.runs) {
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
	level, _ := zerolog.ParseLevel(r.global.LogLevel)
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
	source := r.cmd.simFlag.source(&r.cmd.gpuFlags)
	err := source.Check(ctx)
	if err != nil {
		return nil, err
	}
	if r.prober, err = source.Open(ctx, r.log); err != nil {
		return nil, err
	}
	r.later(func() { r.prober.Close() })
	r.rules = session.HostRulesOf(r.prober)
	pool, impossible, err := session.PoolFor(r.batch, r.prober, r.rules, r.cmd.Sim != "", r.cmd.NoWait, r.runs)
	if err != nil {
		return nil, err
	}
	r.usable = len(pool.Devices())
	r.purse = session.ClaimsOf(r.prober, r.state.Dir(0))
	r.purse.Open(pool)
	return pool, jobspec.Report(impossible)
}

// carry starts the engine and hands everything to the runner.
func (r *run) carry() error {
	if r.git == nil {
		r.git = r.askGit()
	}
	r.head.end(r.gpuWords())
	if r.shuffled {
		fmt.Fprintf(r.out, "trying jobs in random order; --shuffle-seed %d repeats it\n", r.batch.Settings.ShuffleSeed)
	}
	r.tellWarnings()
	for _, n := range r.engineNotes {
		r.say("note", n)
	}
	r.tellRules()
	if err := r.confirm(); err != nil {
		return err
	}
	if err := r.prepareCopies(); err != nil {
		return err
	}
	if err := r.detached.settle(r.state.Output()); err != nil {
		return err
	}
	if session.LogoutKills() {
		r.warn(session.LogoutWarning)
		r.hint(session.LogoutHint)
	}
	if err := r.noStrayKeeper(); err != nil {
		return err
	}
	engine, leave, err := r.openOwn()
	if err != nil {
		return err
	}
	r.later(func() { engine.Close() })
	calls := r.listen()
	r.began = true
	r.remember()
	view := r.openView()
	sig := r.catchSignals(view, r.onTerminal(), leave)
	r.later(sig.close)
	// From here on nearly everything waits for the loop, and idle wake-ups of threads would
	// cost a run of short jobs a tenth of its time, the jobs' own included.
	runtime.GOMAXPROCS(1)
	debug.SetGCPercent(400) // of a heap that is small, or bounded by softMemory
	c := runner.Config{
		Batch: r.batch, Core: r.core, Code: r.code, Ledger: r.state, Starts: r.runFacts(<-r.git), Prober: r.prober, Engine: engine, Does: batches.EngineOf(r.batch).Abilities(), Host: r.rules.Read, Spent: r.purse.Spend, Rules: r.ruler, Reread: r.reread, Taken: r.state.Relock, Say: view.Print, Warn: view.Warn,
		Log: r.log, Stops: sig.stops, Reloads: sig.again, Control: calls,
		Environ: runner.Environ(), Indexed: indexed(r.prober), Now: runner.Now, Go: r.goSafely,
	}
	if u := r.uniIDs(); u != nil {
		c.Sinks, c.Report = append(c.Sinks, u), u.Report
	}
	c.Sinks = append(c.Sinks, r.recordGPUs()...)
	c.Sinks = r.sinks(append(c.Sinks, view), sig, view)
	rest := r.streamEvents()
	res := runner.Run(context.Background(), c)
	if code := sig.code.Load(); code != 0 && res.Stopped == "" && !finished(res.Final) {
		res.Stopped = map[int32]string{batches.ExitInt: "Ctrl-C", batches.ExitTerm: "SIGTERM"}[code]
	}
	r.recordOver(&res)
	if err := r.state.Sync(); err != nil && res.StateErr == nil {
		res.StateErr = err
	}
	rest()
	view.Close()
	r.onPanic = nil
	r.part(engine, batches.EngineOf(r.batch))
	return r.summary(res, view.Wait)
}

// tellRules says what the owner of the host tells everybody, and how long jobs may run that
// do not say it themselves.
func (r *run) tellRules() {
	if r.prober == nil {
		r.rules = session.HostRulesOf(nil)
	}
	r.tellHost(r.rules)
	if limit := r.rules.TimeLimit(); limit != "" && session.Endless(r.batch, r.runs) {
		r.say("note", "jobs without a timeout are stopped by "+limit)
	}
}

// tellWarnings prints the warnings of the job files and the ledgers.
func (r *run) tellWarnings() {
	r.warnings(r.batch)
	r.warn(r.state.Warnings()...)
}

// uniIDs keeps the uni_id.json files of the block dialect. It returns nil if there are none.
func (r *run) uniIDs() *uniid.Sink {
	if !slices.ContainsFunc(r.batch.Files, func(f jobspec.File) bool { return f.UniID != "" }) {
		return nil
	}
	sink := uniid.New(r.batch, r.goSafely)
	r.later(func() {
		if err := sink.Close(); err != nil {
			r.warn(err.Error())
		}
	})
	return sink
}

// indexed reports whether jobs may get the host's indices, since no device is hidden and none in MIG mode.
func indexed(p probe.Prober) bool { return p == nil || p.Complete() }

// openView starts what the user sees.
func (r *run) openView() *terminal.View {
	var open []state.Fact
	for _, a := range r.state.History().Attempts() {
		open = append(open, a.Start)
	}
	view := terminal.New(terminal.Config{
		Screen: r.screen(), Open: open, Go: r.goSafely,
	})
	r.onPanic = view.Close
	return view
}

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
