package runner

import (
	"os"
	"path/filepath"
	"strings"
)

// defaultShell returns the shell for jobs that specify none: bash, exiting at the
// first command or pipeline that fails, or sh if there is no bash. It is looked up in
// gpurun's own PATH and the usual places, because a job's env may set another PATH.
func defaultShell(environ []string) []string {
	path := ""
	for _, e := range environ {
		if p, ok := strings.CutPrefix(e, "PATH="); ok {
			path = p
		}
	}
	for _, dir := range append(filepath.SplitList(path), "/bin", "/usr/bin") {
		bash := filepath.Join(dir, "bash")
		if fi, err := os.Stat(bash); filepath.IsAbs(dir) && err == nil && fi.Mode().IsRegular() && fi.Mode()&0o111 != 0 {
			return []string{bash, "-e", "-o", "pipefail", "-c"}
		}
	}
	return []string{"/bin/sh", "-e", "-c"}
}
