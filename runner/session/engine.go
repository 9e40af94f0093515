// Package session runs a batch or a single command, from parsed flags to exit status.
package session

import (
	"crypto/rand"
	"fmt"
	"os"
	"strings"
	"sync"
	"time"

	"github.com/rs/zerolog"

	"gpurun/runner"
	"gpurun/runner/batches"
	"gpurun/runner/engine"
	"gpurun/state/disk"
	"gpurun/state/host"
)

// OpenEngine opens the engine of a batch folder. Without a folder, the engine can only make claims.
func (p *Process) OpenEngine(kind engine.Kind, dir string, log zerolog.Logger, claims []string, c engine.Cluster) (engine.Opened, error) {
	return kind.Open(engine.Config{Environ: runner.Environ(), Bound: batches.Allocation().ID != "", Dir: dir, Log: log, Claims: claims, Run: RunID(), Go: p.Go, Cluster: c})
}

// LockOf opens the file that this user's runs and commands lock while they submit jobs to a
// cluster.
func LockOf(engine string) (*os.File, error) {
	f, err := disk.OpenLock(engine)
	if err != nil {
		err = &batches.Failure{Code: batches.ExitState, Text: "cannot open the lock that your runs share: " + err.Error(), Err: err, Hint: "set HOME or XDG_STATE_HOME to your own folder on a file system shared by all login nodes"}
	}
	return f, err
}

// RunID returns this run's ID, which is unique on the host.
var RunID = sync.OnceValue(func() string { return strings.ToLower(rand.Text()[:16]) })

// openOwn opens this run's engine. Closing leave interrupts the engine's Close.
func (r *Run) openOwn() (e engine.Opened, leave chan struct{}, err error) {
	s, leave := &r.Batch.Settings, make(chan struct{})
	theirs := engine.Cluster{Options: s.Cluster, Poll: s.Poll, Patience: s.Patience, Leave: leave}
	if s.Cluster["max_gpus_total"] != "" {
		if theirs.Lock, err = LockOf(s.Engine); err != nil {
			return e, leave, err
		}
	}
	e, err = r.OpenEngine(batches.EngineOf(r.Batch), r.State.Dir(0), r.Log, ClaimRoots(r.Prober, r.State.Dir(0)), theirs)
	if err != nil {
		err = &batches.Failure{Code: batches.ExitState, Text: err.Error(), Err: err, Hint: "nothing was started"}
	}
	return e, leave, err
}

// CloseEngine closes an engine. On a cluster, that may take a while, so it prints a note.
func (p *Process) CloseEngine(e engine.Opened, kind engine.Kind) {
	if does := kind.Abilities(); does.Queues {
		late := time.AfterFunc(2*time.Second, func() {
			p.Say("note", does.Name+" has not confirmed all cancellations yet: waiting a few seconds")
		})
		defer late.Stop()
	}
	if err := e.Close(); err != nil {
		p.Warn(err.Error())
	}
}

// detectAllocation detects the cluster job that this run is in, if any.
func (r *Run) detectAllocation() {
	job := batches.Allocation()
	if job.ID == "" || r.opts.Elsewhere {
		return
	}
	if job.Nodes > 1 {
		r.Warn(fmt.Sprintf("%s has %d nodes, but gpurun uses only this one: %s", job, job.Nodes, host.Name()))
		r.Hint("request one node, or submit one job per node")
	}
	var err error
	if r.opts.Ends, r.clusterJob, err = job.Look(); err != nil && r.opts.Ends.IsZero() {
		r.Warn(fmt.Sprintf("cannot determine when %s ends (%v): jobs start regardless of how long they take", job, err))
	}
	r.opts.Within = job.String()
}
