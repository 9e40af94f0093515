package files

import (
	"fmt"
	"os"
	"path/filepath"
)

// MakeFolders creates the folders that outputs go into; for a glob, only its fixed
// part. It never creates the work dir: without one the job should fail, not run in an
// empty folder. Nor does it create an output, whose existence means that the job has
// done its work.
func MakeFolders(workDir string, patterns []string) error {
	if len(patterns) == 0 {
		return nil
	}
	if _, err := os.Stat(workDir); err != nil {
		return nil
	}
	for _, p := range patterns {
		dir := filepath.Dir(p)
		if isGlob(p) {
			dir, _ = split(p)
		}
		if err := os.MkdirAll(dir, 0o777); err != nil {
			return fmt.Errorf("cannot create the folder for output %s: %w", Short(workDir, p), err)
		}
	}
	return nil
}
