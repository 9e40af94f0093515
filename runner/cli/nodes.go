package cli

import (
	"fmt"
	"slices"
	"strings"

	"gpurun/jobspec/settings"
	"gpurun/runner/batches"
	"gpurun/runner/engine/cluster"
	"gpurun/runner/terminal"
	"gpurun/state"
)

// nodes shows the nodes of a cluster, and the free GPUs by partition.
func (c *gpusCmd) nodes(a *app) error {
	kind, is := batches.Engines[c.Engine].(cluster.Kind)
	switch {
	case !is:
		return &batches.Failure{Code: batches.ExitUsage, Text: fmt.Sprintf("--engine: unknown engine %q", c.Engine), Hint: "one of " + strings.Join(settings.Engines, ", ")}
	case c.JSON, c.Watch, len(c.Clear) > 0:
		return &batches.Failure{Code: batches.ExitUsage, Text: "--engine does not work with --json, --watch or --clear", Hint: "for machine-readable output, use sinfo --json and squeue --json, or qhost -xml and qstat -xml"}
	}
	nodes, err := kind.Nodes().Run()
	if err != nil {
		return &batches.Failure{Code: batches.ExitFailed, Text: err.Error(), Err: err}
	}
	rows := [][]string{{"PARTITION", "NODE", "STATE", "FREE", "GPUS", "USED BY"}}
	var parts []string
	free, all := map[string]int{}, map[string]int{}
	for _, n := range nodes {
		for _, p := range n.Parts {
			if !slices.Contains(parts, p) {
				parts = append(parts, p)
			}
			all[p] += n.GPUs
			if n.Open {
				free[p] += n.GPUs - n.Used
			}
		}
		var users []string
		for _, o := range n.Occupants {
			users = append(users, fmt.Sprintf("%s: %s, %s", terminal.CleanText(o.User), state.Count(o.Jobs, "job"), state.Count(o.GPUs, "GPU")))
		}
		rows = append(rows, []string{strings.Join(n.Parts, ","), n.Name, n.State, fmt.Sprint(n.GPUs - n.Used), fmt.Sprint(n.GPUs), strings.Join(users, "; ")})
	}
	table(a.out, rows)
	for _, p := range parts {
		fmt.Fprintf(a.out, "%s: %d of %s free\n", p, free[p], state.Count(all[p], "GPU"))
	}
	return nil
}
