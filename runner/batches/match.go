package batches

import (
	"errors"
	"slices"
	"strings"

	"gpurun/jobspec"
	"gpurun/jobspec/source"
	"gpurun/runner"
	"gpurun/state/host"
)

// Match marks the jobs that match names or globs.
func Match(b *jobspec.Batch, globs []string) ([]bool, error) {
	known, in := make([]string, len(b.Jobs)), make([]bool, len(b.Jobs))
	for id := range b.Jobs {
		known[id] = b.Jobs[id].Name
	}
	var files []string
	for _, f := range b.Files {
		files = append(files, Shown(f.Path))
	}
	ids, err := matching(strings.Join(files, " "), globs, known)
	if err != nil {
		return nil, err
	}
	for _, id := range ids {
		in[id] = true
	}
	return in, nil
}

// Matching returns the indices of names that match names or globs.
func (ref *Ref) Matching(globs, names []string) ([]int, error) {
	return matching(ref.File, globs, names)
}

func matching(file string, globs, names []string) ([]int, error) {
	ids, err := runner.MatchJobs(globs, len(names), func(i int) string { return names[i] })
	if none := runner.NoMatch(""); errors.As(err, &none) {
		return nil, noSuchJob(file, string(none), names)
	}
	return ids, err
}

// noSuchJob reports that no job of a file matches. It suggests the nearest name or, if there are
// names that begin with glob and a hyphen, the pattern that matches them.
func noSuchJob(file, glob string, names []string) error {
	names = names[:min(len(names), 20000)] // comparing a million names would take a second
	best := source.Closest(glob, names, func(string) int { return max(1, len(glob)/3) })
	if slices.ContainsFunc(names, func(n string) bool { return strings.HasPrefix(n, glob+"-") }) {
		best = "'" + glob + "-*'"
	}
	f := &Failure{Code: ExitUsage, Text: "no job in " + file + " matches \"" + glob + "\"", Hint: "gpurun plan " + file + " lists the jobs"}
	if best != "" {
		f.Hint = "did you mean " + best + "?"
	} else if host.Exists(glob) {
		f.Hint = "a file has this name: quote globs, e.g. '" + glob[:1] + "*'"
	}
	return f
}
