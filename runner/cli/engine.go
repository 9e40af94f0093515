package cli

import (
	"fmt"
	"time"

	"gpurun/runner"
	"gpurun/runner/batches"
	"gpurun/runner/engine"
	"gpurun/runner/session"
	"gpurun/state/host"
)

// openOwn opens the engine of this run. At the end it waits for nothing once leave is closed.
func (r *run) openOwn() (e engine.Opened, leave chan struct{}, err error) {
	s, leave := &r.batch.Settings, make(chan struct{})
	theirs := engine.Cluster{Options: s.Cluster, Environ: runner.Environ(), Poll: s.Poll, Leave: leave}
	if s.Cluster["max_gpus_total"] != "" {
		if theirs.Lock, err = session.LockOf(s.Engine); err != nil {
			return e, leave, err
		}
	}
	e, err = session.OpenEngine(batches.EngineOf(r.batch), r.state.Dir(0), r.log, session.ClaimRoots(r.prober, r.state.Dir(0)), theirs, r.goSafely)
	if err != nil {
		err = &batches.Failure{Code: batches.ExitState, Text: err.Error(), Err: err, Hint: "nothing was started"}
	}
	return e, leave, err
}

// part closes an engine, which may have to reach a cluster first.
func (p *process) part(e engine.Opened, kind engine.Kind) {
	if does := kind.Abilities(); does.Queues {
		late := time.AfterFunc(2*time.Second, func() {
			p.say("note", does.Name+" has yet to hear which jobs to cancel: waiting for some seconds")
		})
		defer late.Stop()
	}
	if err := e.Close(); err != nil {
		p.warn(err.Error())
	}
}

// lookAround finds out about the cluster's job in which this run is, if it is in one.
func (r *run) lookAround() {
	job := batches.Allocation()
	if job.ID == "" || r.opts.Elsewhere {
		return
	}
	if job.Nodes > 1 {
		r.warn(fmt.Sprintf("%s has %d nodes, and only this one is used: %s", job, job.Nodes, host.Name()))
		r.hint("ask for one node, or submit a job for each")
	}
	var err error
	if r.opts.Ends, r.within, err = job.Look(); err != nil && r.opts.Ends.IsZero() {
		r.warn(fmt.Sprintf("cannot find out when %s ends (%v): jobs start whatever they take", job, err))
	}
	r.opts.Within = job.String()
}
