package batches

import (
	"cmp"
	"fmt"
	"strconv"
	"sync"

	"gpurun/gpu"
	"gpurun/gpu/probe"
	"gpurun/jobspec"
	"gpurun/runner/engine"
	"gpurun/runner/engine/cluster"
	"gpurun/runner/engine/cluster/gridengine"
	"gpurun/runner/engine/cluster/slurm"
	"gpurun/runner/engine/local"
	"gpurun/runner/sched"
	"gpurun/state"
	"gpurun/state/disk"
)

// Clusters are those that gpurun knows. The names of their engines are also in settings.Engines.
var Clusters = cluster.Dialects{slurm.Dialect{}, gridengine.Dialect{}}

// Engines are the kinds of engines, by the value of the setting engine.
var Engines = func() map[string]engine.Kind {
	all := map[string]engine.Kind{"local": local.Kind{}}
	for _, d := range Clusters {
		all[d.Name()] = cluster.Kind{Dialect: d}
	}
	return all
}()

// EngineOf returns the kind of engine that runs the jobs of a batch.
func EngineOf(b *jobspec.Batch) engine.Kind { return Engines[b.Settings.Engine] }

// kindOf returns the kind of engine that an attempt's folder belongs to. All clusters' are
// alike.
func kindOf(dir string) engine.Kind {
	if cluster.Submitted(dir) {
		return cluster.Kind{}
	}
	return Engines["local"]
}

// trace reads what an attempt's folder says of its start.
func trace(dir, uniID string) (state.Trace, error) { return kindOf(dir).Trace(dir, uniID) }

// Looker returns a function that finds out how the attempt in a folder is doing.
func Looker() func(dir, uniID string) engine.Found {
	looks := map[engine.Kind]func(dir, uniID string) engine.Found{}
	return func(dir, uniID string) engine.Found {
		kind := kindOf(dir)
		if looks[kind] == nil {
			looks[kind] = kind.Looker()
		}
		return looks[kind](dir, uniID)
	}
}

// SameEngine refuses to take on attempts that another engine started and that may not be over:
// this one could neither see them nor stop them.
func SameEngine(kind engine.Kind, h *state.History, dir func(ledger int) string) error {
	look, name := Looker(), kind.Abilities().Name
	for _, at := range h.Attempts() {
		theirs := engineName(at)
		if theirs == name || look(disk.AttemptDir(dir(at.Ledger), at.Start.UniID), at.Start.UniID).Ended != nil {
			continue
		}
		return &Failure{
			Code: ExitState, Text: fmt.Sprintf("an earlier run left %s on the engine %s, where it may be queued or running", at.Start.Job, theirs),
			Hint: fmt.Sprintf("add --engine %s to continue there, or stop it first (gpurun stop)", theirs),
		}
	}
	return nil
}

// Remains returns a batch of what a dead run left, one job per attempt, and the engine of the attempts
// that one of them stands for. It ignores the job file, which may have changed or be gone.
func (ref *Ref) Remains(s *disk.State, one *state.Attempt) (*jobspec.Batch, engine.Kind, error) {
	kind, known := Engines[engineName(one)]
	if !known {
		return nil, nil, &Failure{Code: ExitState, Text: fmt.Sprintf("%s was started on the engine %s, which this gpurun does not support", one.Start.Job, engineName(one)), Hint: "use the gpurun that started it"}
	}
	open := s.History().Attempts()
	b := &jobspec.Batch{Files: []jobspec.File{{Path: ref.File, Real: ref.Real, Count: len(open)}}}
	for _, at := range open {
		addJob(b, at.Start.Job, 0, at.Start.Key)
	}
	return b, kind, SameEngine(kind, s.History(), s.Dir)
}

// engineName returns the name of the engine that an attempt was started on.
func engineName(at *state.Attempt) string {
	if at.Start.Engine == "" {
		return "local"
	}
	return at.Start.Engine
}

// SetLimits sets what the core knows of the place where jobs run.
func SetLimits(o *sched.Options, b *jobspec.Batch) {
	does := EngineOf(b).Abilities()
	if !does.Places {
		has := Resources()
		o.CPUs, o.Memory = has.CPUs, has.RAM
		return
	}
	o.Elsewhere, o.Queues = true, does.Queues
	o.Largest = cluster.JobRequest{Request: engine.Request{Options: b.Settings.Cluster}}.Largest()
	o.MaxOpen, _ = strconv.Atoi(b.Settings.Cluster["max_submitted"])
	o.MaxTotal, _ = strconv.Atoi(b.Settings.Cluster["max_gpus_total"])
}

// Resources returns what this run may use of the host; 0 is unknown.
func Resources() gpu.HostResources {
	has, given := gpu.HostResources{CPUs: probe.Cores(), RAM: probe.Memory()}, Allocation()
	if given.CPUs > 0 {
		has.CPUs = min(has.CPUs, given.CPUs)
	}
	if given.RAM > 0 && (has.RAM == 0 || given.RAM < has.RAM) {
		has.RAM = given.RAM
	}
	return has
}

// Allocation returns the job of a cluster in which this process runs.
var Allocation = sync.OnceValue(func() cluster.Allocation { return Clusters.Allocation() })

// CheckHost reports jobs that need more than this host has, if they run here.
func CheckHost(b *jobspec.Batch, runs func(id int) bool) []jobspec.Problem {
	if EngineOf(b).Abilities().Places {
		return nil
	}
	has := Resources()
	found := b.CheckHost(has.CPUs, has.RAM, runs)
	for i := range found {
		if job := Allocation(); job.ID != "" {
			found[i].Hint = cmp.Or(found[i].Hint, "this run has what "+job.String()+" asked for")
		}
	}
	return found
}
