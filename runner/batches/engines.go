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

// Clusters are the supported cluster schedulers. settings.Engines must list their names too.
var Clusters = cluster.Dialects{slurm.Dialect{}, gridengine.Dialect{}}

// Engines maps each value of the engine setting to its kind of engine.
var Engines = func() map[string]engine.Kind {
	all := map[string]engine.Kind{"local": local.Kind{}}
	for _, d := range Clusters {
		all[d.Name()] = cluster.Kind{Dialect: d}
	}
	return all
}()

// EngineOf returns the engine kind of a batch.
func EngineOf(b *jobspec.Batch) engine.Kind { return Engines[b.Settings.Engine] }

// kindOf returns the engine kind to which an attempt's folder belongs; it is the same for all
// clusters.
func kindOf(dir string) engine.Kind {
	if cluster.Submitted(dir) {
		return cluster.Kind{}
	}
	return Engines["local"]
}

// trace reads the start data in an attempt's folder.
func trace(dir, uniID string) (state.Trace, error) { return kindOf(dir).Trace(dir, uniID) }

// Looker returns a function that inspects the attempt in a folder.
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

// SameEngine refuses to run while attempts of another engine may still be running, since this
// engine could neither see nor stop them.
func SameEngine(kind engine.Kind, h *state.History, dir func(ledger int) string) error {
	look, name := Looker(), kind.Abilities().Name
	for _, at := range h.Attempts() {
		theirs := engineName(at)
		if theirs == name || look(disk.AttemptDir(dir(at.Ledger), at.Start.UniID), at.Start.UniID).Ended != nil {
			continue
		}
		return &Failure{
			Code: ExitState, Text: fmt.Sprintf("an earlier run left %s on engine %s, where it may be queued or running", at.Start.Job, theirs),
			Hint: fmt.Sprintf("add --engine %s to continue there, or stop it first (gpurun stop)", theirs),
		}
	}
	return nil
}

// NoCopy refuses to adopt or stop running attempts if the state folder is a copy and the attempts
// belong to the original.
func NoCopy(s *disk.State) error {
	look := Looker()
	for _, at := range s.History().Attempts() {
		dir := s.Dir(at.Ledger)
		if f := look(disk.AttemptDir(dir, at.Start.UniID), at.Start.UniID); f.Original != "" {
			return &Failure{
				Code: ExitState, Text: fmt.Sprintf("%s is a copy of %s, where job %s is still running (process %d)", dir, f.Original, at.Start.Job, f.PID),
				Hint: "wait until the job has ended, or remove the copy to run all jobs here: rm -r " + dir,
			}
		}
	}
	return nil
}

// Remains returns a batch with one job for each attempt that a dead run left open, and the engine
// kind of the given attempt. It fails if another open attempt may still be running on a different
// engine. It does not use the job file, which may have changed or been removed.
func (ref *Ref) Remains(s *disk.State, one *state.Attempt) (*jobspec.Batch, engine.Kind, error) {
	kind, known := Engines[engineName(one)]
	if !known {
		return nil, nil, &Failure{Code: ExitState, Text: fmt.Sprintf("%s was started on engine %s, which this gpurun does not support", one.Start.Job, engineName(one)), Hint: "use the gpurun that started it"}
	}
	open := s.History().Attempts()
	b := &jobspec.Batch{Files: []jobspec.File{{Path: ref.File, Real: ref.Real, Count: len(open)}}}
	for _, at := range open {
		addJob(b, at.Start.Job, 0, at.Start.Key)
	}
	return b, kind, SameEngine(kind, s.History(), s.Dir)
}

func engineName(at *state.Attempt) string {
	return cmp.Or(at.Start.Engine, "local")
}

// SetLimits sets the core's limits to the resources of the place where jobs run.
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

// Resources returns the host resources that this run may use; 0 means unknown.
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

// Allocation returns the cluster job in which this process runs.
var Allocation = sync.OnceValue(func() cluster.Allocation { return Clusters.Allocation() })

// CheckHost reports jobs that need more than this host has, unless they run elsewhere.
func CheckHost(b *jobspec.Batch, runs func(id int) bool) []jobspec.Problem {
	if EngineOf(b).Abilities().Places {
		return nil
	}
	has := Resources()
	found := b.CheckHost(has.CPUs, has.RAM, runs)
	for i := range found {
		if job := Allocation(); job.ID != "" {
			found[i].Hint = cmp.Or(found[i].Hint, "this run is limited to the resources of "+job.String())
		}
	}
	return found
}
