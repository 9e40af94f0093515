package cli

import (
	"fmt"
	"strings"

	"gpurun/jobspec"
	"gpurun/runner/sched"
	"gpurun/state"
	"gpurun/state/disk"
)

// maxReplaced bounds how many jobs that never ran are compared with what is gone from
// the job files.
const maxReplaced = 10000

// A past is an attempt that succeeded as what a job most likely was before.
type past struct {
	rec   *state.Record
	start state.Fact
}

// nearest finds out which jobs that never ran were given a new name and a new command
// at once: the same program ran with the same parameters, for a job that is gone from
// the file, and nothing else fits either of them. It does nothing unless what is
// gone took more than so many GPU hours.
func (a *app) nearest(b *jobspec.Batch, core *sched.Core, hours float64) map[int]past {
	jobs, gone := core.Replaced(maxReplaced)
	wanted := map[string]bool{}
	for _, r := range gone {
		wanted[r.UniID] = true
		hours -= gpuHours(r)
	}
	if len(wanted) == 0 || hours >= 0 {
		return nil
	}
	starts := disk.Starts(realPaths(b), disk.Options{StateDir: a.global.StateDir}, wanted)
	old := map[string][]past{}
	for _, r := range gone {
		if start, ok := starts[r.UniID]; ok {
			sign := signature(int(r.Ledger), start.Params, start.Commands)
			old[sign] = append(old[sign], past{r, start})
		}
	}
	fresh := map[string][]int{}
	for _, id := range jobs {
		j := &b.Jobs[id]
		params := map[string]string{}
		for _, p := range j.Params() {
			params[p.Name] = p.Text
		}
		sign := signature(j.File, params, b.Commands(j))
		fresh[sign] = append(fresh[sign], id)
	}
	found := map[int]past{}
	for sign, ids := range fresh {
		if len(ids) == 1 && len(old[sign]) == 1 {
			found[ids[0]] = old[sign][0]
		}
	}
	return found
}

// signature is the same for what may be one job: the file, the parameters, and the
// program with the first word that it gets.
func signature(file int, params map[string]string, commands []string) string {
	words := strings.Fields(strings.Join(commands, " "))
	parts := []string{fmt.Sprint(file), strings.Join(words[:min(2, len(words))], " ")}
	for _, name := range sortedKeys(params) {
		parts = append(parts, name, params[name])
	}
	return strings.Join(parts, "\x00")
}

func gpuHours(r *state.Record) float64 { return r.Seconds / 3600 * float64(r.GPUs) }

// since describes how a job differs from what it was before, under another name.
func (p past) since(b *jobspec.Batch, j *jobspec.Job) string {
	text := "command changed"
	if words := difference(p.start, b, j); words != "" {
		text += ": " + words
	}
	return text + " (was " + p.rec.Job + ")"
}

// withPast completes the verdicts on jobs that were something else before.
func withPast(of verdicts, b *jobspec.Batch, pasts map[int]past) verdicts {
	return func(id int) verdict {
		v := of(id)
		if p, ok := pasts[id]; ok && !v.Live {
			v.Reason = p.since(b, &b.Jobs[id])
		}
		return v
	}
}
