package cli

import (
	"cmp"
	"crypto/rand"
	"fmt"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/rs/zerolog"

	"gpurun/gpu"
	"gpurun/gpu/probe"
	"gpurun/jobspec"
	"gpurun/runner"
	"gpurun/runner/engine"
	"gpurun/runner/engine/cluster"
	"gpurun/runner/engine/cluster/gridengine"
	"gpurun/runner/engine/cluster/slurm"
	"gpurun/runner/engine/local"
	"gpurun/runner/sched"
	"gpurun/state"
	"gpurun/state/disk"
	"gpurun/state/host"
)

// engines are the kinds of engines, by the value of the setting engine.
var engines = map[string]engine.Kind{"local": local.Kind{}, "slurm": slurm.Kind, "sge": gridengine.Kind}

// engineOf returns the kind of engine that runs the jobs of a batch.
func engineOf(b *jobspec.Batch) engine.Kind { return engines[b.Settings.Engine] }

// kindOf returns the kind of engine that an attempt's folder belongs to. All clusters' are
// alike.
func kindOf(dir string) engine.Kind {
	if cluster.Submitted(dir) {
		return engines["slurm"]
	}
	return engines["local"]
}

// trace reads what an attempt's folder says of its start.
func trace(dir, uniID string) (state.Trace, error) { return kindOf(dir).Trace(dir, uniID) }

// looker returns a function that finds out how the attempt in a folder is doing.
func looker() func(dir, uniID string) engine.Found {
	looks := map[engine.Kind]func(dir, uniID string) engine.Found{}
	return func(dir, uniID string) engine.Found {
		kind := kindOf(dir)
		if looks[kind] == nil {
			looks[kind] = kind.Looker()
		}
		return looks[kind](dir, uniID)
	}
}

// openEngine opens the engine of a batch folder; of none for claims alone.
func (a *app) openEngine(kind engine.Kind, dir string, log zerolog.Logger, claims []string, c engine.Cluster) (engine.Opened, error) {
	return kind.Open(engine.Config{Bound: allocation().ID != "", Dir: dir, Log: log, Claims: claims, Run: runID(), Go: a.goSafely, Cluster: c})
}

// openOwn opens the engine of this run. At the end it waits for nothing once leave is closed.
func (r *run) openOwn() (e engine.Opened, leave chan struct{}, err error) {
	s, leave := &r.batch.Settings, make(chan struct{})
	theirs := engine.Cluster{Options: s.Cluster, Environ: runner.Environ(), Poll: s.Poll, Leave: leave}
	e, err = r.openEngine(engineOf(r.batch), r.state.Dir(0), r.log, claimRoots(r.prober, r.state.Dir(0)), theirs)
	if err != nil {
		err = &failure{code: exitState, text: err.Error(), err: err, hint: "nothing was started"}
	}
	return e, leave, err
}

// part closes an engine, which may have to reach a cluster first.
func (a *app) part(e engine.Opened, kind engine.Kind) {
	if does := kind.Abilities(); does.Queues {
		late := time.AfterFunc(2*time.Second, func() {
			a.say("note", does.Name+" has yet to hear which jobs to cancel: waiting for some seconds")
		})
		defer late.Stop()
	}
	if err := e.Close(); err != nil {
		a.warn(err.Error())
	}
}

// sameEngine refuses to take on attempts that another engine started and that may not be over:
// this one could neither see them nor stop them.
func sameEngine(kind engine.Kind, h *state.History, dir func(ledger int) string) error {
	look, name := looker(), kind.Abilities().Name
	for _, at := range h.Attempts() {
		theirs, folder := nameOf(at), disk.AttemptDir(dir(at.Ledger), at.Start.UniID)
		if theirs == name && !cluster.Outdated(folder) || look(folder, at.Start.UniID).Ended != nil {
			continue
		}
		if theirs == name {
			return &failure{
				code: exitState, text: fmt.Sprintf("an older gpurun has submitted %s to %s, where it may be queued or running; this one cannot take it on", at.Start.Job, theirs),
				hint: fmt.Sprintf("go on with that one; or cancel the job there and remove %s, then run this again", folder),
			}
		}
		return &failure{
			code: exitState, text: fmt.Sprintf("an earlier run has left %s on the engine %s, where it may be queued or running", at.Start.Job, theirs),
			hint: fmt.Sprintf("add --engine %s to go on there, or stop it first (gpurun stop)", theirs),
		}
	}
	return nil
}

// nameOf returns the name of the engine that an attempt was started on.
func nameOf(at *state.Attempt) string {
	if at.Start.Engine == "" {
		return "local"
	}
	return at.Start.Engine
}

// setLimits sets what the core knows of the place where jobs run.
func setLimits(o *sched.Options, b *jobspec.Batch) {
	does := engineOf(b).Abilities()
	if !does.Places {
		o.CPUs, o.Memory = cores(), hostMemory()
		return
	}
	o.Elsewhere, o.Queues = true, does.Queues
	o.Largest = cluster.Asked{Ask: engine.Ask{Options: b.Settings.Cluster}}.Largest()
	o.MaxOpen, _ = strconv.Atoi(b.Settings.Cluster["max_submitted"])
	o.MaxTotal, _ = strconv.Atoi(b.Settings.Cluster["max_gpus_total"])
}

// checkHost reports jobs that need more than this host has, if they run here.
func checkHost(b *jobspec.Batch, runs func(id int) bool) []jobspec.Problem {
	if engineOf(b).Abilities().Places {
		return nil
	}
	found := b.CheckHost(cores(), hostMemory(), runs)
	for i := range found {
		if job := allocation(); job.ID != "" {
			found[i].Hint = cmp.Or(found[i].Hint, "this run has what "+job.String()+" asked for")
		}
	}
	return found
}

// runID returns what this run is called among all on the host.
var runID = sync.OnceValue(func() string { return strings.ToLower(rand.Text()[:16]) })

// cores returns how many CPU cores this run may use, 0 if unknown.
func cores() int {
	n := probe.Cores()
	if given := allocation().CPUs; given > 0 {
		n = min(n, given)
	}
	return n
}

// hostMemory returns how much host memory this run may use, 0 if unknown.
func hostMemory() gpu.Bytes {
	n := probe.Memory()
	if given := allocation().RAM; given > 0 && (n == 0 || given < n) {
		n = given
	}
	return n
}

// lookAround finds out about the cluster's job in which this run is, if it is in one.
func (r *run) lookAround() {
	job := allocation()
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

// dialects are those of the clusters that gpurun knows.
var dialects = []cluster.Dialect{dialectOf(engines["slurm"]), dialectOf(engines["sge"])}

// allocation returns the job of a cluster in which this process runs.
var allocation = sync.OnceValue(func() cluster.Allocation { return cluster.Here(dialects...) })
