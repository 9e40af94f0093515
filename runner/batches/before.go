package batches

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	"gpurun/jobspec"
	"gpurun/runner"
	"gpurun/runner/sched"
	"gpurun/state"
)

// An earlierVersion describes a job before it changed.
type earlierVersion struct {
	start state.Fact    // start of its last attempt
	was   *state.Record // end of its last attempt, if the job had another name; else nil
}

// maxReplaced is how many new jobs are compared with jobs that have left the job files.
const maxReplaced = 10000

// earlierVersions finds the earlier versions of jobs. If only the command has changed, the earlier
// version is the last attempt of the same name. If the name has changed too, the earlier version is
// a job that has left the file, provided that both jobs run the same program with the same
// parameters and neither matches any other job.
func earlierVersions(b *jobspec.Batch, h *state.History, core *sched.Core) map[int]earlierVersion {
	found := map[int]earlierVersion{}
	for id := range b.Jobs {
		if r := core.Before(id); r != nil {
			if start, ok := h.StartOf(r); ok {
				found[id] = earlierVersion{start: start}
			}
		}
	}
	jobs, gone := core.Replaced(maxReplaced)
	old, fresh := map[string][]earlierVersion{}, map[string][]int{}
	for _, r := range gone {
		if start, ok := h.StartOf(r); ok {
			sign := signature(r.Ledger, start.Params, start.Commands)
			old[sign] = append(old[sign], earlierVersion{start, r})
		}
	}
	for _, id := range jobs {
		j := &b.Jobs[id]
		sign := signature(j.File, runner.Params(j), b.Commands(j))
		fresh[sign] = append(fresh[sign], id)
	}
	for sign, ids := range fresh {
		if len(ids) == 1 && len(old[sign]) == 1 {
			found[ids[0]] = old[sign][0]
		}
	}
	return found
}

// maxReruns is how many GPU hours of successes may rerun without confirmation.
const maxReruns = 1.0

// Reruns describes successes that would rerun without --force or forget, for example because their
// file was renamed, and how to avoid that. text is "" if there are none or they took little GPU
// time. much means that the user must confirm.
func (r *Reader) Reruns(b *jobspec.Batch, h *state.History, core *sched.Core) (text, fix string, much bool) {
	pasts := earlierVersions(b, h, core)
	jobs, first, hours := 0, 0, 0.0
	for id := range b.Jobs {
		rec := cmp.Or(core.Redoes(id), pasts[id].was)
		if rec == nil {
			continue
		}
		if jobs++; jobs == 1 {
			first = id
		}
		hours += rec.Seconds / 3600 * float64(len(rec.GPUs))
	}
	if m := r.Moved(b, h, func(id int) bool { return core.Verdict(id).Run }); m.Jobs > 0 && (m.hours > maxReruns || hours <= maxReruns) {
		return m.Words(), m.Fix(), m.hours > maxReruns
	}
	if hours <= maxReruns {
		return "", "", false
	}
	j, reason := &b.Jobs[first], core.Verdict(first).Reason
	if p, ok := pasts[first]; ok {
		reason = p.reason(reason, b, j)
	}
	such := ""
	if jobs > 1 {
		such = "for example "
	}
	return fmt.Sprintf("rerunning %s that succeeded before and took %.1f GPU hours (%s%s: %s)", state.Count(jobs, "job"), hours, such, j.Name, reason), "gpurun plan shows the reason for each; gpurun done JOB… keeps the result of a job", true
}

// signature returns a string that is equal for possible versions of the same job. It contains the
// file, the parameters, and the program with its first argument.
func signature(file int, params map[string]string, commands []string) string {
	words := strings.Fields(strings.Join(commands, " "))
	return fmt.Sprintf("%d %q %q", file, words[:min(2, len(words))], params) // maps print in sorted order
}

// reason adds the changes to the reason why a job runs.
func (p earlierVersion) reason(reason string, b *jobspec.Batch, j *jobspec.Job) string {
	if p.was != nil {
		reason = "command changed"
	}
	if words := difference(p.start, b, j); words != "" {
		reason += ": " + words
	}
	if p.was != nil {
		reason += " (was " + p.was.Job + ")"
	}
	return reason
}

// maxDifferences is how many differences of a job are shown.
const maxDifferences = 4

// difference describes how a job differs from an attempt: "param seed 1 → 2, args: +--lr 0.2"; ""
// if it does not.
func difference(was state.Fact, b *jobspec.Batch, j *jobspec.Job) string {
	var parts []string
	for _, p := range j.Params() {
		switch old, ok := was.Params[p.Name]; {
		case !ok:
			parts = append(parts, "param +"+p.Name+" "+p.Text)
		case old != p.Text:
			parts = append(parts, "param "+p.Name+" "+old+" → "+p.Text)
		}
	}
	now := runner.Params(j)
	for _, name := range slices.Sorted(maps.Keys(was.Params)) {
		if _, ok := now[name]; !ok {
			parts = append(parts, "param -"+name)
		}
	}
	if len(parts) == 0 { // if parameters differ, they explain the change
		parts = commandDifference(was.Commands, b.Commands(j))
	}
	parts = append(parts, traitDifference(was.Traits, b.Traits(j))...)
	if more := len(parts) - maxDifferences; more > 0 {
		parts = append(parts[:maxDifferences], "and more")
	}
	return strings.Join(parts, ", ")
}

// traitDifference compares environment, config and other traits, unless the attempt's start is too
// old to have recorded them.
func traitDifference(was, now map[string]string) []string {
	if was == nil {
		return nil
	}
	var parts []string
	all := maps.Clone(was)
	maps.Copy(all, now)
	for _, key := range slices.Sorted(maps.Keys(all)) {
		old, had := was[key]
		fresh, has := now[key]
		kind, name, _ := strings.Cut(key, " ")
		switch {
		case had && has && old == fresh:
		case kind == "env":
			parts = append(parts, "env: "+name)
		case kind != "config" || name == "":
			parts = append(parts, kind)
		case !had:
			parts = append(parts, "config: +"+name+" "+fresh)
		case !has:
			parts = append(parts, "config: -"+name)
		default:
			parts = append(parts, "config: "+name+" "+old+" → "+fresh)
		}
	}
	return parts
}

// commandDifference compares commands word by word. A word with a {variable}, which the attempt
// filled in, matches any value.
func commandDifference(was, now []string) []string {
	old, fresh := strings.Fields(strings.Join(was, " ")), strings.Fields(strings.Join(now, " "))
	for len(old) > 0 && len(fresh) > 0 && sameWord(old[0], fresh[0]) {
		old, fresh = old[1:], fresh[1:]
	}
	for len(old) > 0 && len(fresh) > 0 && sameWord(old[len(old)-1], fresh[len(fresh)-1]) {
		old, fresh = old[:len(old)-1], fresh[:len(fresh)-1]
	}
	if len(old) == 0 { // a variable may have been empty, for example {gpu} in a CPU job
		fresh = slices.DeleteFunc(fresh, func(w string) bool { return sameWord("", w) })
	}
	if len(old) == 0 && len(fresh) == 0 {
		return nil
	}
	label := "run: "
	if first := slices.Concat(fresh, old)[0]; strings.HasPrefix(first, "-") {
		label = "args: "
	}
	switch {
	case len(old) == 0:
		return []string{label + "+" + clipped(fresh)}
	case len(fresh) == 0:
		return []string{label + "-" + clipped(old)}
	}
	return []string{label + clipped(old) + " → " + clipped(fresh)}
}

func sameWord(old, fresh string) bool {
	head, rest, ok := strings.Cut(fresh, "{")
	if !ok || !strings.Contains(rest, "}") {
		return old == fresh
	}
	tail := rest[strings.LastIndexByte(rest, '}')+1:]
	return len(old) >= len(head)+len(tail) && strings.HasPrefix(old, head) && strings.HasSuffix(old, tail)
}

func clipped(words []string) string {
	text := []rune(strings.Join(words, " "))
	if len(text) > 60 {
		text = append(text[:59], '…')
	}
	return string(text)
}
