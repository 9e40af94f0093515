package session

import (
	"fmt"
	"os/exec"
	"slices"
	"strings"

	"gpurun/jobspec"
	"gpurun/runner/batches"
	"gpurun/runner/engine/cluster"
)

// How the settings of a job file map to a cluster that chooses the GPUs. Each setting has an
// entry, so that none is ignored silently. docs/reference/clusters.md lists them, and
// jobspec.JobKeys has the keys of jobs.

// An onCluster describes how settings work on a cluster.
type onCluster struct {
	keys []string
	idle bool   // they have no effect
	cure string // the alternative, for settings without a counterpart
}

var settingsOnCluster = []onCluster{
	{keys: []string{
		"max_concurrent", "min_memory", "max_wait", "poll", "work_dir", "max_gpus", "order", "shuffle_seed", "grace", "fail_fast", "program", "seed_as",
		"breaker", "learn", "snapshot", "pools", "engine", "cluster", "notify", "allow",
	}},
	{keys: []string{"gpu_ids", "reserve", "min_gpus"}, cure: jobspec.TheyChoose},
	{keys: []string{"background"}, cure: "remove it; a partition with low priority does the same: cluster: {partition: NAME}"},
	{keys: []string{"hours"}, cure: "remove it; the cluster has reservations for that"},
	{keys: []string{"slots"}, cure: jobspec.WholeGPUs},
	{keys: []string{"max_util", "others", "share", "pick", "patience"}, idle: true},
}

// LacksCommand reports that this host lacks the command that submits jobs to their cluster.
func LacksCommand(b *jobspec.Batch, runs func(id int) bool) []jobspec.Problem {
	kind := batches.EngineOf(b)
	for id := range b.Jobs {
		if !runs(id) || !kind.Abilities().Queues {
			continue
		}
		name := kind.(cluster.Kind).Dialect.Submit(cluster.Array{Tasks: 1}, nil).Args[0]
		if _, err := exec.LookPath(name); err != nil {
			return []jobspec.Problem{{
				File: b.Files[0].Path, Text: fmt.Sprintf("engine %s: there is no %s here", b.Settings.Engine, name),
				Hint: "log in to a node that has it, load the site's module, or run with --engine local",
			}}
		}
		break
	}
	return nil
}

// CheckEngine returns the requests of jobs and settings that their engine cannot fulfil, and
// reports settings that have no effect there.
func CheckEngine(b *jobspec.Batch, runs func(id int) bool, sim, noWait bool) (problems []jobspec.Problem, notes []string) {
	kind := batches.EngineOf(b).Abilities()
	if !kind.Places {
		return nil, nil
	}
	refuse := func(what, cure string) {
		problems = append(problems, jobspec.Problem{File: b.Files[0].Path, Text: what + " has no counterpart on " + kind.Name, Hint: cure})
	}
	if sim {
		refuse("--sim", "remove it, or run with --engine local")
	}
	if noWait {
		refuse("--no-wait", "remove it: the cluster has the queue")
	}
	given := map[string]string{}
	for _, s := range b.Settings.Sources {
		if s.Source != "default" {
			given[s.Name] = s.Source
		}
	}
	for _, k := range settingsOnCluster {
		for _, name := range k.keys {
			switch from := given[name]; {
			case from == "":
			case k.cure != "":
				refuse(name+" ("+from+")", k.cure)
			case k.idle:
				notes = append(notes, name)
			}
		}
	}
	for _, k := range jobspec.JobKeys {
		if k.Used == nil {
			continue
		}
		for id := range b.Jobs {
			if j := &b.Jobs[id]; runs(id) && k.Used(j, &b.Settings) {
				if k.Cure != "" {
					refuse(j.Name+": "+k.Name, k.Cure)
				} else {
					notes = append(notes, k.Note)
				}
				break // the first job stands for all
			}
		}
	}
	if len(notes) > 0 {
		slices.Sort(notes)
		notes = []string{"no effect on " + kind.Name + ", which gives each job GPUs of its own: " + strings.Join(slices.Compact(notes), ", ")}
	}
	if job := batches.Allocation(); job.ID != "" {
		notes = append(notes, fmt.Sprintf("inside %s, and the engine is %s: this submits new jobs (--engine local uses the GPUs of %s)", job, kind.Name, job))
	}
	return problems, notes
}
