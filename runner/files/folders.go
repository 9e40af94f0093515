package files

import (
	"fmt"
	"os"
	"path/filepath"
)

// MakeFolders creates the folders that outputs are to lie in, those of a glob as far
// as its fixed part goes. A work dir that does not exist is not made: the job is to
// fail there, not to run in an empty folder. Nor is an output itself ever made, since
// its being there is what says that the job has done its work.
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
			return fmt.Errorf("cannot create the folder of output %s: %w", Short(workDir, p), err)
		}
	}
	return nil
}
