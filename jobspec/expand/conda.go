package expand

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"

	"al.essio.dev/pkg/shellescape"
)

// conda activate needs a shell function that is normally defined by startup files. A job's shell
// does not read these, so conda's hook defines the function instead.

var (
	activates    = regexp.MustCompile(`(?m)(?:^|[;&])\s*conda\s+activate\s`)
	activateThen = regexp.MustCompile(`^\s*conda\s+activate\s+[^\s;&|]+\s*&&`)
	defines      = regexp.MustCompile(`conda\.sh|\bhook\b`)
	onlyActivate = regexp.MustCompile(`^\s*conda\s+activate\s+[^\s;&|]+\s*$`)
)

// Shells are the names of shells that understand the syntax of sh.
var Shells = []string{"bash", "sh", "zsh", "dash", "ksh"}

// Sh reports whether the commands are scripts for a shell like sh.
func (t *Job) Sh() bool {
	return len(t.Shell) == 0 || slices.ContainsFunc(t.Shell, func(word string) bool {
		return slices.Contains(Shells, filepath.Base(word))
	})
}

// Activation returns how many commands at the beginning of a block only activate an environment.
// They become the setup of its other commands.
func (t *Job) Activation() (n int) {
	for t.Block && t.Sh() && n < len(t.Commands)-1 && onlyActivate.MatchString(t.Commands[n].Raw) {
		n++
	}
	return n
}

// Hooked reports whether conda's hook is inserted before a command. The hook is left out if the
// command itself defines conda's function.
func (t *Job) Hooked(command string) bool {
	return t.Sh() && !defines.MatchString(command) && ((t.Setup != nil || t.Activation() > 0) && activates.MatchString(command+"\n") || activateThen.MatchString(command))
}

// CondaHook returns a line that defines conda's function in every supported shell.
func CondaHook() string {
	program, home := "conda", os.Getenv("HOME")
	for _, path := range []string{os.Getenv("CONDA_EXE"), "conda", home + "/miniconda3/bin/conda", home + "/anaconda3/bin/conda", home + "/miniforge3/bin/conda", "/opt/conda/bin/conda"} {
		if _, err := exec.LookPath(path); err == nil {
			program = path
			break
		}
	}
	return `eval "$(` + shellescape.Quote(program) + ` shell.bash hook)"`
}
