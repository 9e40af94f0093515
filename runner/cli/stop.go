package cli

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/rs/zerolog"

	"gpurun/runner"
	"gpurun/runner/batches"
	"gpurun/runner/control"
	"gpurun/runner/engine"
	"gpurun/runner/sched"
	"gpurun/runner/session"
	"gpurun/state"
	"gpurun/state/schema"
)

type stopCmd struct {
	batchFlag `embed:""`
	Jobs      []string `arg:"" optional:"" name:"job" help:"Jobs or globs to cancel (default: the whole run)."`
	GPU       *int     `name:"gpu" placeholder:"N" help:"Requeue the jobs on GPU N and stop using it."`
	Exec      string   `placeholder:"NAME" help:"Stop the command that gpurun exec started as NAME."`
	Drain     bool     `help:"Start no more jobs, but let running ones finish."`
}

func (stopCmd) Help() string {
	return helpText("Cancelled jobs are not retried; they run next time.",
		"gpurun stop 'train-*-s42'      # these jobs",
		"gpurun stop --gpu 5            # free GPU 5; its jobs run elsewhere",
		"gpurun stop --drain            # start no more jobs")
}

func (c *stopCmd) Run(a *app) error {
	given := 0
	for _, is := range []bool{len(c.Jobs) > 0, c.GPU != nil, c.Drain, c.Exec != ""} {
		if is {
			given++
		}
	}
	req, said := control.Request{Op: control.OpStop, Jobs: c.Jobs}, "stopping the run"
	switch {
	case given > 1:
		return &batches.Failure{Code: batches.ExitUsage, Text: "JOB, --gpu, --drain and --exec do not work together: pass only one"}
	case c.Exec != "":
		if session.StopExec(c.Exec) == 0 { // no such command is running or waiting for GPUs
			return &batches.Failure{Code: batches.ExitUsage, Text: "you have no gpurun exec command named " + c.Exec, Hint: "gpurun gpus and gpurun queue show their names"}
		}
		fmt.Fprintln(a.out, "stopped exec "+c.Exec)
		return nil
	case c.Drain:
		req, said = control.Request{Op: control.OpDrain}, "no more jobs start"
	case c.GPU != nil:
		req, said = control.Request{Op: control.OpStopGPU, GPU: *c.GPU}, fmt.Sprintf("freeing GPU %d: this run no longer uses it", *c.GPU)
	case len(c.Jobs) > 0:
		said = "cancelled"
	}
	return a.request(&c.batchFlag, req, said, func(ref *batches.Ref) error { return c.stopOrphans(a, ref) })
}

// request sends a request to the run of the selected batch and prints the outcome. Without a run,
// it calls dead.
func (a *app) request(f *batchFlag, req control.Request, said string, dead func(ref *batches.Ref) error) error {
	ref, err := a.FindToChange(f.File)
	if err != nil {
		return err
	}
	if !a.allFiles {
		req.File = f.only(ref)
	}
	rep, err := ref.Ask(req)
	switch {
	case errors.Is(err, control.ErrNoRun) && !errors.As(err, new(*batches.Failure)): // for a run that is starting or exiting, err is a Failure
		return dead(ref)
	case err != nil:
		return ref.Unreached(rep, err)
	}
	return a.printReply(ref, rep, said, len(req.Jobs) > 0)
}

// printReply prints what the request changed, and which jobs it left unchanged. It returns a
// failure if jobs were refused, if keepers do not answer, or if nothing changed because jobs are
// still running or their ends are not in the ledger.
func (a *app) printReply(ref *batches.Ref, rep control.Reply, said string, named bool) error {
	for _, line := range rep.Messages {
		fmt.Fprintln(a.out, ref.Name()+": "+line)
	}
	if !named && rep.Messages == nil || len(rep.Done) > 0 {
		fmt.Fprintln(a.out, ref.Name()+": "+changedLine(rep.Done, said))
	}
	if err := refusal(ref, rep.Kept); err != nil {
		return err
	}
	hints := map[string]string{
		runner.StillRuns:   "wait for running jobs to end, or run gpurun stop first",
		batches.Unrecorded: ref.Command() + " --skip '*' records the end of these jobs and starts nothing; then try again",
	}
	for _, k := range rep.Kept {
		if hint := hints[k.Why]; hint != "" && len(rep.Done) == 0 {
			return &batches.Failure{Code: batches.ExitFailed, Text: ref.Name() + ": " + changedLine(k.Jobs, k.Why), Hint: hint}
		}
		fmt.Fprintln(a.out, ref.Name()+": "+changedLine(k.Jobs, k.Why))
	}
	if rep.Note != "" {
		fmt.Fprintln(a.out, ref.Name()+": "+rep.Note)
	}
	return silentFailure(ref, rep.Silent, "the run stops them when their keeper responds")
}

// silentFailure returns the failure for a request when keepers do not answer, or nil.
func silentFailure(ref *batches.Ref, silent []string, hint string) error {
	if len(silent) == 0 {
		return nil
	}
	return &batches.Failure{Code: batches.ExitState, Text: ref.Name() + ": cannot reach some jobs: " + strings.Join(silent, "; "), Hint: hint}
}

// changedLine returns "cancelled: a, b, …".
func changedLine(jobs []string, said string) string {
	if len(jobs) == 0 {
		return said
	}
	return said + ": " + jobWords(jobs, 10, len(jobs))
}

// stopOrphans stops the selected jobs that outlived their run. It takes the place of their run
// until they have ended. It leaves other jobs alone. With --drain, it only withdraws jobs that wait
// in a cluster's queue.
func (c *stopCmd) stopOrphans(a *app, ref *batches.Ref) error {
	s, err := a.Lock([]string{ref.Real}, "")
	if err != nil {
		return err
	}
	defer s.Close()
	open := s.History().Attempts()
	var chosen []int
	if len(open) > 0 {
		if chosen, err = c.chosen(open); err != nil {
			return &batches.Failure{Code: batches.ExitUsage, Text: err.Error(), Err: err}
		}
	}
	if len(chosen) == 0 {
		fmt.Fprintln(a.out, ref.File+" is not running: "+map[bool]string{false: "nothing to stop", true: "no jobs start"}[c.Drain])
		return nil
	}
	if err := batches.NoCopy(s); err != nil {
		return err
	}
	b, kind, err := ref.Remains(s, open[chosen[0]])
	if err != nil {
		return err
	}
	engine, err := a.OpenEngine(kind, s.Dir(0), zerolog.Nop(), nil, engine.Cluster{})
	if err != nil {
		return &batches.Failure{Code: batches.ExitState, Text: "cannot reach the run's jobs: " + err.Error(), Err: err}
	}
	defer a.CloseEngine(engine, kind)
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	last := &orphanEnds{left: map[string]bool{}, ended: map[string]bool{}, all: cancel, drain: c.Drain}
	for _, i := range chosen {
		last.left[open[i].Start.UniID] = true
	}
	stops := make(chan sched.StopRequested, 1)
	stops <- sched.StopRequested{Jobs: chosen, Drain: c.Drain, Why: "gpurun stop"}
	res := runner.Run(ctx, runner.Config{
		Batch: b, Core: sched.New(b, s.History(), sched.Options{Selected: make([]bool, len(b.Jobs)), Elsewhere: kind.Abilities().Places}), // Queues is not set, so that the other jobs stay in a cluster's queue
		Ledger: s, Engine: engine, Does: kind.Abilities(), Sinks: []runner.Sink{last}, Log: zerolog.Nop(), Stops: stops, Now: runner.Now, Go: a.Go,
	})
	if res.StateErr != nil {
		return batches.StateFailure(res.StateErr)
	}
	words := map[bool]string{true: "stopped", false: "not stopped"}
	if c.Drain {
		words = map[bool]string{true: "withdrawn", false: "running"}
	}
	for _, ended := range []bool{true, false} {
		var jobs []string
		for _, i := range chosen {
			if last.ended[open[i].Start.UniID] == ended {
				jobs = append(jobs, open[i].Start.Job)
			}
		}
		if len(jobs) > 0 {
			fmt.Fprintln(a.out, ref.Name()+": "+changedLine(jobs, words[ended]))
		}
	}
	return silentFailure(ref, last.silent, "once their keeper responds, run gpurun stop again")
}

// chosen returns the selected attempts as indices into open.
func (c *stopCmd) chosen(open []*state.Attempt) (ids []int, err error) {
	if len(c.Jobs) > 0 {
		return runner.MatchJobs(c.Jobs, len(open), func(i int) string { return open[i].Start.Job })
	}
	if c.Drain {
		for i, at := range open {
			if at.Start.Engine != "" && at.Running == nil { // in a cluster's queue
				ids = append(ids, i)
			}
		}
		return ids, nil
	}
	for i, at := range open {
		if c.GPU == nil || slices.Contains(at.Start.GPUs, *c.GPU) {
			ids = append(ids, i)
		}
	}
	if len(ids) == 0 {
		return nil, fmt.Errorf("no job is running on GPU %d", *c.GPU)
	}
	return ids, nil
}

// orphanEnds ends stopOrphans' runner once the jobs to stop have ended, or if waiting for them is
// pointless.
type orphanEnds struct {
	left   map[string]bool // attempts to wait for, by uni_id
	ended  map[string]bool // whether each attempt has ended, by uni_id
	drain  bool            // do not wait for jobs that begin
	all    func()
	silent []string // keepers that do not answer; stop does not wait for them
}

// Fact records that an attempt has ended or, with drain, has begun.
func (l *orphanEnds) Fact(_ int, f state.Fact) {
	ended := f.Kind == state.KindEnd
	if !l.left[f.UniID] || !ended && !(l.drain && f.Kind == state.KindRunning) {
		return
	}
	l.ended[f.UniID] = ended
	if delete(l.left, f.UniID); len(l.left) == 0 {
		l.all()
	}
}

// Snapshot gives up if a keeper does not answer.
func (l *orphanEnds) Snapshot(s *schema.Status) {
	if len(s.Live.Silent) > 0 {
		l.silent = s.Live.Silent
		l.all()
	}
}
