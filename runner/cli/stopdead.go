package cli

import (
	"context"
	"fmt"
	"slices"

	"github.com/rs/zerolog"

	"gpurun/runner"
	"gpurun/runner/batches"
	"gpurun/runner/engine"
	"gpurun/runner/sched"
	"gpurun/state"
	"gpurun/state/schema"
)

// stopOrphans stops jobs that outlived their run: it adopts them until they have ended. It leaves other
// jobs alone. With --drain, it withdraws those that wait in a cluster's queue.
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
		fmt.Fprintln(a.out, ref.File+" is not running: nothing "+map[bool]string{false: "to stop", true: "starts"}[c.Drain])
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
		Batch: b, Core: sched.New(b, s.History(), sched.Options{Selected: make([]bool, len(b.Jobs)), Elsewhere: kind.Abilities().Places}), // without Queues, the others stay in a cluster's queue as they are
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

// orphanEnds releases the adopted jobs once the ones to stop have ended, or waiting for them is
// pointless.
type orphanEnds struct {
	left   map[string]bool // by uni_id: to wait for
	ended  map[string]bool // by uni_id
	drain  bool            // do not wait for jobs that begin
	all    func()
	silent []string // keepers that do not answer; stop does not wait for them
}

// Fact records an end, or a start.
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
