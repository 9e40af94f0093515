package cli

import (
	"iter"

	"github.com/agnivade/levenshtein"
)

// noSuchJob says that nothing has this name, and names the nearest that there is.
func noSuchJob(glob string, names iter.Seq[string]) error {
	f := &failure{code: exitUsage, text: "no job matches " + quoted(glob)}
	best, least, looked := "", max(2, len(glob)/3)+1, 0
	for n := range names {
		if looked++; looked > 20000 {
			break // the distance to a million names is not worth a second
		}
		if d := levenshtein.ComputeDistance(glob, n); d < least {
			best, least = n, d
		}
	}
	if best != "" {
		f.hint = "did you mean " + best + "?"
	} else {
		f.hint = "gpurun plan FILE lists the jobs"
	}
	return f
}
