package lint

import (
	"bytes"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"gpurun/jobspec/expand"
	"gpurun/jobspec/source"
)

// A program is a file that a job runs: its text, and its name as first mentioned in the batch.
type program struct{ name, text string }

// These bound the reading of scripts: the size of each, their number, and how many commands of a
// batch are parsed only to find scripts.
const (
	maxScriptBytes = 128 << 10
	maxScripts     = 1000
	maxSearches    = 1000
)

// mayRunScripts reports whether a command may run a script that is worth reading. A batch may have
// a hundred thousand commands, which are too many to parse.
func (j *jobChecker) mayRunScripts(command string) bool {
	for _, ext := range []string{".sh", ".py"} {
		i := strings.Index(command, ext)
		if i < 0 {
			continue
		}
		from := strings.LastIndexAny(command[:i], " \t\n;&|(\"'=") + 1
		if worthChecking(j.program(command[from : i+len(ext)]).text) {
			return true
		}
		if strings.Contains(command, "cd ") && j.searches < maxSearches {
			j.searches++
			return true
		}
	}
	return false
}

// program reads a file that a command names, at most once per batch. The result has no text if the
// file cannot be read.
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

// readScript reads a small text file. For any other file, it returns "", so the file is not checked.
func readScript(path string) string {
	data, err := source.ReadRegular(path)
	if err != nil || len(data) > maxScriptBytes || bytes.IndexByte(data, 0) >= 0 {
		return ""
	}
	return string(data)
}

// firstRun matches a command that does nothing before it runs a file with a literal path.
var firstRun = regexp.MustCompile(`^(?:\s*(?:#.*|set -.*|(?:export )?\w+=[\w./,:-]*)?\n)*\s*(?:\w+=[\w./,:-]* +)*(?:nohup +|time +)?` +
	`(?:(python[\d.]*|bash|sh)(?: +-[uexlivBEI]+)* +([\w./][\w./+=,@-]*)|(\./[\w./+=,@-]+))(?:[\s;&|>)]|$)`)

// missingScripts warns about jobs whose first command runs a script that does not exist and that no
// job can create beforehand.
func (b *batchChecker) missingScripts() {
	queues := map[int32]bool{}
	b.jobs(func(e *Expansion) bool {
		before := e.Queue >= 0 && queues[e.Queue]
		queues[e.Queue] = true
		if before || len(e.Needs) > 0 || len(e.Commands) == 0 {
			return !before
		}
		m := firstRun.FindStringSubmatch(e.Commands[0].Raw)
		if m == nil || !strings.ContainsAny(m[2]+m[3], "./") || !e.Sh() || strings.Contains(m[0], "PATH=") || slices.ContainsFunc(e.Env, func(v expand.Env) bool { return v.Name == "PATH" }) {
			return true
		}
		v, err := e.Plan(b.Files[e.File].WorkDir, e.Combo, e.Name)
		if err != nil || !b.exists(v.WorkDir) {
			return false
		}
		name := m[2] + m[3]
		path, _ := expand.Absolute(v.WorkDir, name)
		_, onPath := exec.LookPath(name)
		if b.exists(path) || onPath == nil && strings.HasSuffix(m[1], "sh") && !strings.Contains(name, "/") {
			return e.WorkDir == nil
		}
		if _, made := b.producers().of(path); !made {
			at := *e.Commands[0]
			at.Line, at.Col = b.Files[e.File].Source.Find(at.Line, at.Col, name)
			b.find(e, Missing, &at, true, "fix the path or work_dir",
				"script %s does not exist, and no job in this batch creates it", path)
		}
		return true
	})
}
