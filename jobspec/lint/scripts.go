package lint

import (
	"bytes"
	"path/filepath"
	"strings"

	"gpurun/jobspec/expand"
	"gpurun/jobspec/script"
	"gpurun/jobspec/source"
)

// A program is a file that a job runs: its text, and its name as the batch first gives it.
type program struct{ name, text string }

// Bounds on reading scripts: how much of each, how many, and how many commands of a batch
// are searched for scripts not named relative to the work dir.
const (
	maxScriptBytes = 128 << 10
	maxScripts     = 1000
	maxSearches    = 1000
)

// mayRunScripts reports whether a command may run a script that is worth reading. A batch
// may have a hundred thousand commands, too many to parse them all for that.
func (j *jobChecker) mayRunScripts(command string) bool {
	for _, ext := range []string{".sh", ".py"} {
		i := strings.Index(command, ext)
		if i < 0 {
			continue
		}
		from := strings.LastIndexAny(command[:i], " \t\n;&|(\"'=") + 1
		if script.Worth(j.program(command[from : i+len(ext)]).text) {
			return true
		}
		if strings.Contains(command, "cd ") && j.searches < maxSearches {
			j.searches++
			return true
		}
	}
	return false
}

// program reads a file that a command names, each once. Without a text it cannot be read.
func (j *jobChecker) program(name string) program {
	dir := j.Base
	if j.WorkDir != nil {
		var err error
		if dir, err = expand.Absolute(dir, j.WorkDir.Raw); err != nil || !j.WorkDir.Constant() {
			return program{}
		}
	}
	path := name
	if !filepath.IsAbs(path) {
		path = filepath.Join(dir, name)
	}
	p, ok := j.programs[path]
	if !ok && len(j.programs) < maxScripts {
		p = program{name, readScript(path)}
		j.programs[path] = p
	}
	return p
}

// readScript reads a small text file; anything else is not checked.
func readScript(path string) string {
	data, err := source.ReadRegular(path)
	if err != nil || len(data) > maxScriptBytes || bytes.IndexByte(data, 0) >= 0 {
		return ""
	}
	return string(data)
}
