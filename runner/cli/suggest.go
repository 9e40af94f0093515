package cli

import (
	"iter"
	"os"
	"strings"

	"github.com/agnivade/levenshtein"
)

// noSuchJob says that nothing of a file has this name, and names the nearest that
// there is, or the glob of those that begin with it.
func noSuchJob(file, glob string, names iter.Seq[string]) error {
	f := &failure{code: exitUsage, text: "no job of " + file + " matches " + quoted(glob)}
	best, least, looked := "", max(1, len(glob)/3)+1, 0
	for n := range names {
		if strings.HasPrefix(n, glob+"-") {
			best = "'" + glob + "-*'"
			break
		}
		if looked++; looked > 20000 {
			break // the distance to a million names is not worth a second
		}
		d := levenshtein.ComputeDistance(glob, n)
		if swapped(glob, n) {
			d = 1
		}
		if d < least {
			best, least = n, d
		}
	}
	if best != "" {
		f.hint = "did you mean " + best + "?"
	} else if f.hint = "gpurun plan " + file + " lists the jobs"; exists(glob) {
		f.hint = "a file has this name: put globs in quotes, as '" + glob[:1] + "*'"
	}
	return f
}

func exists(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}
