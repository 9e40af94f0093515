package runner

import (
	"os"
	"path/filepath"
	"strings"
)

// defaultShell is what runs the commands of a job that names no shell: bash,
// which ends at the first command or pipe that fails, or sh where there is no
// bash. It is found by gpurun's own PATH and in the usual places, since a job's
// env may have a PATH of its own.
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
