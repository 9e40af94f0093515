package cli

import (
	"maps"
	"slices"
	"strings"

	"gpurun/jobspec"
	"gpurun/runner/sched"
	"gpurun/state"
	"gpurun/state/disk"
)

// changes tells, for jobs whose command has changed, how it differs from the last attempt
// of the same name. It rereads the ledger: for successes only the fact is in memory.
func (a *app) changes(b *jobspec.Batch, core *sched.Core) map[int]string {
	was := map[int]*state.Record{} // by job
	wanted := map[string]bool{}    // uni_ids
	for id := range b.Jobs {
		if r := core.Before(id); r != nil && r.UniID != "" {
			was[id], wanted[r.UniID] = r, true
		}
	}
	if len(was) == 0 {
		return nil
	}
	starts := disk.Starts(realPaths(b), disk.Options{StateDir: a.global.StateDir}, wanted)
	words := map[int]string{}
	for id, r := range was {
		if f, ok := starts[r.UniID]; ok {
			words[id] = difference(f, b, &b.Jobs[id])
		}
	}
	return words
}

// withChanges adds what has changed to verdicts, if known.
func withChanges(of verdicts, changes map[int]string) verdicts {
	return func(id int) verdict {
		v := of(id)
		if words := changes[id]; words != "" && !v.Live {
			v.Reason += ": " + words
		}
		return v
	}
}

// maxDifferences bounds how many differences of a job are shown.
const maxDifferences = 4

// difference describes how a job differs from an attempt: "param seed 1 → 2, args:
// +--lr 0.2"; "" if nothing does.
func difference(was state.Fact, b *jobspec.Batch, j *jobspec.Job) string {
	var parts []string
	values := map[string]string{}
	for _, p := range j.Params() {
		values[p.Name] = p.Text
		switch old, ok := was.Params[p.Name]; {
		case !ok:
			parts = append(parts, "param +"+p.Name+" "+p.Text)
		case old != p.Text:
			parts = append(parts, "param "+p.Name+" "+old+" → "+p.Text)
		}
	}
	for _, name := range sortedKeys(was.Params) {
		if _, ok := values[name]; !ok {
			parts = append(parts, "param -"+name)
		}
	}
	if len(parts) == 0 { // otherwise the parameters explain the commands
		parts = commandDifference(was.Commands, b.Commands(j))
	}
	parts = append(parts, traitDifference(was, b.Traits(j))...)
	if more := len(parts) - maxDifferences; more > 0 {
		parts = append(parts[:maxDifferences], "and more")
	}
	return strings.Join(parts, ", ")
}

// traitDifference compares environment, config and the rest, unless the attempt's start
// is too old to record them.
func traitDifference(was state.Fact, now map[string]string) []string {
	if was.Traits == nil {
		return nil
	}
	var parts []string
	all := maps.Clone(was.Traits)
	maps.Copy(all, now)
	for _, key := range sortedKeys(all) {
		old, had := was.Traits[key]
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

// commandDifference compares commands word by word. A word with a {variable} of the
// attempt matches any value.
func commandDifference(was, now []string) []string {
	old, fresh := strings.Fields(strings.Join(was, " ")), strings.Fields(strings.Join(now, " "))
	for len(old) > 0 && len(fresh) > 0 && sameWord(old[0], fresh[0]) {
		old, fresh = old[1:], fresh[1:]
	}
	for len(old) > 0 && len(fresh) > 0 && sameWord(old[len(old)-1], fresh[len(fresh)-1]) {
		old, fresh = old[:len(old)-1], fresh[:len(fresh)-1]
	}
	if len(old) == 0 { // a variable may have been empty, like {gpu} of a CPU job
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

// clipped joins words, and cuts a long result.
func clipped(words []string) string {
	const most = 60
	text := []rune(strings.Join(words, " "))
	if len(text) > most {
		return string(text[:most-1]) + "…"
	}
	return string(text)
}

func sortedKeys(m map[string]string) []string {
	names := make([]string, 0, len(m))
	for n := range m {
		names = append(names, n)
	}
	slices.Sort(names)
	return names
}
