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

// LacksCommand reports a problem if jobs need a submit command that does not exist on this host.
func LacksCommand(b *jobspec.Batch, runs func(id int) bool) []jobspec.Problem {
	kind, queues := batches.EngineOf(b).(cluster.Kind)
	if !queues || !slices.ContainsFunc(b.Jobs, func(j jobspec.Job) bool { return runs(j.ID) }) {
		return nil
	}
	name := kind.Dialect.Submit(cluster.Array{Tasks: 1}, nil).Args[0]
	if _, err := exec.LookPath(name); err == nil {
		return nil
	}
	return []jobspec.Problem{{
		File: b.Files[0].Path, Text: fmt.Sprintf("engine %s: %s not found", b.Settings.Engine, name),
		Hint: "log in to a node of the cluster, load the site's module, or run with --engine local",
	}}
}

// CheckEngine returns a problem for each job key or setting that the batch's engine cannot
// implement, and notes about those that have no effect there.
func CheckEngine(b *jobspec.Batch, runs func(id int) bool, sim, noWait bool) (problems []jobspec.Problem, notes []string) {
	kind := batches.EngineOf(b).Abilities()
	if !kind.Places {
		return nil, nil
	}
	refuse := func(what, fix string) {
		problems = append(problems, jobspec.Problem{File: b.Files[0].Path, Text: what + " has no equivalent on " + kind.Name, Hint: fix})
	}
	if sim {
		refuse("--sim", "remove it, or run with --engine local")
	}
	if noWait {
		refuse("--no-wait", "remove it: jobs wait in the queue of the cluster")
	}
	for _, s := range b.Settings.Sources {
		switch fix, idle := s.OnCluster(); {
		case s.Source == "default":
		case fix != "":
			refuse(s.Name+" ("+s.Source+")", fix)
		case idle:
			notes = append(notes, s.Name)
		}
	}
	for _, k := range jobspec.JobKeys {
		if k.Used == nil {
			continue
		}
		for id := range b.Jobs {
			if j := &b.Jobs[id]; runs(id) && k.Used(j, &b.Settings) {
				if k.Fix != "" {
					refuse(j.Name+": "+k.Name, k.Fix)
				} else {
					notes = append(notes, k.Note)
				}
				break // report each key once
			}
		}
	}
	if len(notes) > 0 {
		slices.Sort(notes)
		notes = []string{"no effect on " + kind.Name + ", which gives each job its own GPUs: " + strings.Join(slices.Compact(notes), ", ")}
	}
	if job := batches.Allocation(); job.ID != "" {
		notes = append(notes, fmt.Sprintf("inside %s with engine %s: gpurun submits new jobs; to use the GPUs of %s, run with --engine local", job, kind.Name, job))
	}
	return problems, notes
}
