package files

import (
	"fmt"
	"os"
	"path/filepath"
)

// MakeFolders creates the folders that contain the outputs; for a glob, only the fixed part. It
// never creates the work dir, because a job without one should fail rather than run in an empty
// folder. Nor does it create an output itself, whose existence would mean that the job is done.
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

// FolderOf returns the folder that contains an output; for a glob, the fixed part.
func FolderOf(pattern string) string {
	if isGlob(pattern) {
		dir, _ := split(pattern)
		return dir
	}
	return filepath.Dir(pattern)
}
