package cli

import (
	"fmt"
	"io"
	"slices"

	"gpurun/jobspec"
	"gpurun/runner/batches"
	"gpurun/runner/notify"
	"gpurun/runner/report"
	"gpurun/runner/session"
	"gpurun/runner/terminal"
	"gpurun/runner/uniid"
	"gpurun/state"
	"gpurun/state/schema"
)

type runCmd struct {
	jobFlags `embed:""`
	simFlag  `embed:""`
	DryRun   bool   `short:"n" help:"Start nothing; show what would run, like gpurun plan."`
	Verbose  bool   `short:"v" help:"With -n, also show settings and commands."`
	Abandon  string `placeholder:"HOST" help:"Record the open attempts on HOST as lost; use only if that machine is gone."`
	Detach   bool   `short:"d" help:"Run in the background, with output in run.out in the state folder."`
	Watch    bool   `help:"After the last job, wait for the job files to change."`
	Yes      bool   `short:"y" help:"Do not ask before rerunning more than a GPU hour of finished work."`
	NoWait   bool   `help:"Exit with status 75 if too few GPUs are free now."`
	JSON     bool   `name:"json" help:"Print events as JSON lines, like gpurun events."`
}

func (runCmd) Help() string {
	return helpText(
		"The first Ctrl-C keeps new jobs from starting, the second stops running jobs, and the third kills them.",
		"gpurun --sim 4x24GiB jobs.yaml           # simulated GPUs",
		"gpurun --lines cmds.txt -m 8GiB -j 4     # every line of cmds.txt is a job",
		"gpurun run -d jobs.yaml                  # in the background, also after logout")
}

func (c *runCmd) Run(a *app) error {
	if c.DryRun {
		return (&planCmd{jobFlags: c.jobFlags, Verbose: c.Verbose, JSON: c.JSON}).Run(a)
	}
	paths, err := a.paths(&c.batchFlags)
	if err != nil {
		return err
	}
	d := session.Detached()
	if c.JSON && c.Detach {
		return &batches.Failure{Code: batches.ExitUsage, Text: "--json prints the events of a run, but -d runs it in the background", Hint: "gpurun events -f prints them"}
	}
	if c.JSON { // standard output is for the events; output for users is dropped, except warnings and errors
		a.stream, a.out, a.OutTTY = a.out, io.Discard, false
	}
	if c.Detach && d == nil {
		return a.Detach(slices.Contains(c.List.Lines, stdin), a.out)
	}
	session.OutliveReader()
	s := &shownRun{app: a, cmd: c, head: newHeadline(a.out, paths)}
	r := session.New(session.Config{
		Process: a.Process, Reader: a.Reader, Out: a.out, Source: c.source(c.SimHere), Abandon: c.Abandon, Watch: c.Watch, Yes: c.Yes, NoWait: c.NoWait,
		LogLevel: a.global.LogLevel, Version: programVersion(), Detached: d, Options: c.options, Summed: summarizeProblems, Read: s.head.batch, Observe: s.observe,
		Files: func() ([]string, jobspec.Options, error) {
			o, err := a.flagged(&c.batchFlags, paths)
			o.Lint = true
			return paths, o, err
		},
	})
	defer s.closeAndNotify(r)
	if err := r.Open(); err != nil {
		s.head.abandon()
		return err
	}
	if r.NothingToRun() && !c.Watch {
		s.head.end("nothing to do")
		s.printWarnings(r)
		return s.summary(r, r.Skip())
	}
	s.printOpening(r)
	res, err := r.Execute()
	if err != nil {
		return err
	}
	return s.summary(r, res)
}

// A shownRun prints a run's output.
type shownRun struct {
	*app
	cmd      *runCmd
	head     *headline
	view     *terminal.View // nil before the jobs start
	notifier *notify.Sink   // nil before the jobs start
}

// printOpening prints what the user must know before the jobs start.
func (s *shownRun) printOpening(r *session.Run) {
	s.head.end(r.GPUs())
	if r.Shuffled {
		fmt.Fprintf(s.out, "starting jobs in random order; --shuffle-seed %d repeats this order\n", r.Batch.Settings.ShuffleSeed)
	}
	s.printWarnings(r)
	for _, n := range r.Notes {
		s.say("note", n)
	}
	s.printHostNotes(r.Rules)
	if words := r.Rules.Endless(r.Batch, r.Runs); words != "" {
		s.say("note", words)
	}
}

// printWarnings prints the warnings about the job files and the ledgers.
func (s *shownRun) printWarnings(r *session.Run) {
	s.warnings(r.Batch)
	s.Warn(r.State.Warnings()...)
}

// observe opens the observers of the run.
func (s *shownRun) observe(r *session.Run) session.Observers {
	var open []state.Fact
	for _, a := range r.State.History().Attempts() {
		open = append(open, a.Start)
	}
	s.view = terminal.New(terminal.Config{Screen: s.screen(), Open: open, Go: s.Go})
	s.OnPanic = s.view.Close
	s.notifier = notify.New(notify.Config{
		Targets: r.Batch.Targets(r.Batch.Settings.Notify),
		Run:     notifyRun(names(len(r.Batch.Files), func(i int) string { return r.Batch.Files[i].Path })),
		Secrets: batches.SecretsOf, Say: s.view.Warn, Go: s.Go,
	})
	s.notifier.Continue(r.Batch)
	o := session.Observers{View: s.view, Over: func(res *schema.Result, words string) { s.notifier.End(res.Final, words) }}
	// The block dialect keeps uni_id.json files.
	if slices.ContainsFunc(r.Batch.Files, func(f jobspec.File) bool { return f.UniID != "" }) {
		u := uniid.New(r.Batch, s.Go)
		o.Sinks, o.Report = append(o.Sinks, u), u.Report
		r.OnClose(func() {
			if err := u.Close(); err != nil {
				s.Warn(err.Error())
			}
		})
	}
	if r.Prober != nil {
		rec := report.NewRecorder(r.State.GPUReadings(), s.Go, func(err error) {
			r.Log.Warn().Err(err).Msg("cannot save the GPU readings for the report")
		})
		o.Sinks = append(o.Sinks, rec)
		r.OnClose(rec.Close)
	}
	o.Sinks = append(o.Sinks, s.view, s.notifier)
	rest := s.streamEvents(r)
	o.End = func() {
		rest()
		s.view.Close()
		s.OnPanic = nil
	}
	return o
}
