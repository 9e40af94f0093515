package lint

import (
	"bytes"
	"io"
	"path/filepath"
	"strconv"
	"strings"

	"gpurun/jobspec/expand"
	"gpurun/jobspec/script"
	"gpurun/state/host"
)

// A scriptFile is a program that a job runs, as much of it as was read.
type scriptFile struct{ name, text string }

// Bounds on reading scripts: how much of each, how many, and how many commands of a batch
// are searched for scripts not named relative to the work dir.
const (
	maxScriptBytes = 128 << 10
	maxScripts     = 1000
	maxSearches    = 1000
)

func fileLine(name string, line int) string { return name + ":" + strconv.Itoa(line) + ": " }

// mayRunScripts reports whether a command may run a script that is worth reading. A batch
// may have a hundred thousand commands, too many to parse them all for that.
func (j *jobChecker) mayRunScripts(command string) bool {
	for _, ext := range []string{".sh", ".py"} {
		i := strings.Index(command, ext)
		if i < 0 {
			continue
		}
		from := strings.LastIndexAny(command[:i], " \t\n;&|(\"'=") + 1
		if file := j.scriptAt(command[from : i+len(ext)]); file != nil && script.Worth(file.text) {
			return true
		}
		if strings.Contains(command, "cd ") && j.searches < maxSearches {
			j.searches++
			return true
		}
	}
	return false
}

// named returns the scripts that can be read.
func (j *jobChecker) named(names []string) []*scriptFile {
	var list []*scriptFile
	for _, name := range names {
		if f := j.scriptAt(name); f != nil {
			list = append(list, f)
		}
	}
	return list
}

// scripts returns all files that the job runs.
func (j *jobChecker) scripts() []*scriptFile {
	var list []*scriptFile
	if j.searches++; j.searches > maxSearches {
		return nil
	}
	for i := range j.Commands {
		list = append(list, j.named(script.Check(j.Commands[i].Raw, script.Job{}).Scripts)...)
	}
	return list
}

// scriptAt reads a file that a command names, each once; nil if it cannot be read.
func (j *jobChecker) scriptAt(name string) *scriptFile {
	dir := j.Base
	if j.WorkDir != nil {
		var err error
		if dir, err = expand.Absolute(dir, j.WorkDir.Raw); err != nil || !j.WorkDir.Constant() {
			return nil
		}
	}
	path := name
	if !filepath.IsAbs(path) {
		path = filepath.Join(dir, name)
	}
	f, ok := j.programs[path]
	if !ok && len(j.programs) < maxScripts {
		if text, ok := readScript(path); ok {
			f = &scriptFile{name, text}
		}
		j.programs[path] = f
	}
	return f
}

// readScript reads a small regular text file; anything else is not checked.
func readScript(path string) (string, bool) {
	f, info, err := host.OpenRegular(path)
	if err != nil {
		return "", false
	}
	defer f.Close()
	if info.Size() > maxScriptBytes {
		return "", false
	}
	data, err := io.ReadAll(io.LimitReader(f, maxScriptBytes))
	return string(data), err == nil && bytes.IndexByte(data, 0) < 0
}
