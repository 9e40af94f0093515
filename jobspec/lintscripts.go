package jobspec

import (
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"gpurun/jobspec/expand"
	"gpurun/jobspec/script"
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
func (p *proto) mayRunScripts(command string) bool {
	for _, ext := range []string{".sh", ".py"} {
		i := strings.Index(command, ext)
		if i < 0 {
			continue
		}
		from := strings.LastIndexAny(command[:i], " \t\n;&|(\"'=") + 1
		if file := p.scriptAt(command[from : i+len(ext)]); file != nil && script.Worth(file.text) {
			return true
		}
		if strings.Contains(command, "cd ") && p.file.searches < maxSearches {
			p.file.searches++
			return true
		}
	}
	return false
}

// named returns the scripts that can be read.
func (p *proto) named(names []string) []*scriptFile {
	var list []*scriptFile
	for _, name := range names {
		if f := p.scriptAt(name); f != nil {
			list = append(list, f)
		}
	}
	return list
}

// scripts returns all files that the job runs.
func (p *proto) scripts() []*scriptFile {
	var list []*scriptFile
	if p.file.searches++; p.file.searches > maxSearches {
		return nil
	}
	for i := range p.Commands {
		list = append(list, p.named(script.Check(p.Commands[i].Raw, script.Job{}).Scripts)...)
	}
	return list
}

// scriptAt reads a file that a command names, each once; nil if it cannot be read.
func (p *proto) scriptAt(name string) *scriptFile {
	dir := p.file.workDir
	if p.WorkDir != nil {
		var err error
		if dir, err = expand.Absolute(dir, p.WorkDir.Raw); err != nil || !p.WorkDir.Constant() {
			return nil
		}
	}
	path := name
	if !filepath.IsAbs(path) {
		path = filepath.Join(dir, name)
	}
	l := p.file.loader
	f, ok := l.scripts[path]
	if !ok && len(l.scripts) < maxScripts {
		if text, ok := readScript(path); ok {
			f = &scriptFile{name, text}
		}
		l.scripts[path] = f
	}
	return f
}

// present reports whether a path exists, as far as this user can tell.
func present(path string) bool {
	_, err := os.Stat(path)
	return !errors.Is(err, fs.ErrNotExist)
}

// readScript reads a small regular text file; anything else is not checked.
func readScript(path string) (string, bool) {
	f, err := os.OpenFile(path, os.O_RDONLY|unix.O_NONBLOCK|unix.O_NOCTTY, 0)
	if err != nil {
		return "", false
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil || !info.Mode().IsRegular() || info.Size() > maxScriptBytes {
		return "", false
	}
	data, err := io.ReadAll(io.LimitReader(f, maxScriptBytes))
	return string(data), err == nil && strings.IndexByte(string(data), 0) < 0
}
