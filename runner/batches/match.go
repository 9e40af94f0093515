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
	ids, err := runner.MatchJobs(globs, len(known), func(id int) string { return known[id] })
	var none runner.NoMatch
	if errors.As(err, &none) {
		var files []string
		for _, f := range b.Files {
			files = append(files, Shown(f.Path))
		}
		return nil, NoSuchJob(strings.Join(files, " "), string(none), known)
	}
	for _, id := range ids {
		in[id] = true
	}
	return in, nil
}

// NoSuchJob reports that no job of a file matches, and suggests the nearest name, or
// the glob of the names that begin with it.
func NoSuchJob(file, glob string, names []string) error {
	names = names[:min(len(names), 20000)] // the distance to a million names is not worth a second
	best := source.Closest(glob, names, func(string) int { return max(1, len(glob)/3) })
	if slices.ContainsFunc(names, func(n string) bool { return strings.HasPrefix(n, glob+"-") }) {
		best = "'" + glob + "-*'"
	}
	f := &Failure{Code: ExitUsage, Text: "no job of " + file + " matches \"" + glob + "\"", Hint: "gpurun plan " + file + " lists the jobs"}
	if best != "" {
		f.Hint = "did you mean " + best + "?"
	} else if host.Exists(glob) {
		f.Hint = "a file has this name: quote globs, e.g. '" + glob[:1] + "*'"
	}
	return f
}
