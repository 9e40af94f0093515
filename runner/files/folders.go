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
		if err := os.MkdirAll(FolderOf(p), 0o777); err != nil {
			return fmt.Errorf("cannot create the folder for output %s: %w", Short(workDir, p), err)
		}
	}
	return nil
}

// FolderOf returns the folder that an output goes into; for a glob, its fixed part.
func FolderOf(pattern string) string {
	if isGlob(pattern) {
		dir, _ := split(pattern)
		return dir
	}
	return filepath.Dir(pattern)
}
