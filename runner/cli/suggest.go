package cli

import (
	"iter"
	"os"
	"path/filepath"
	"strings"

	"github.com/agnivade/levenshtein"
)

// noSuchJob reports that no job of a file matches, and suggests the nearest name, or
// the glob of the names that begin with it.
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
		f.hint = "a file has this name: quote globs, e.g. '" + glob[:1] + "*'"
	}
	return f
}

// noFiles refuses a job file in place of jobs: "gpurun stop jobs.yaml" means the batch,
// but would look for a job of that name.
func noFiles(jobs []string) error {
	for _, j := range jobs {
		if ext := filepath.Ext(j); (ext == ".yaml" || ext == ".yml") && isFile(j) {
			return &failure{code: exitUsage, text: quoted(j) + " is a file, not a job", hint: "give the job file with --file " + j + "; if the shell expanded a glob, quote it"}
		}
	}
	return nil
}

func exists(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}
