package jobspec

import (
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	"gpurun/jobspec/expand"
	"gpurun/jobspec/units"
	"gpurun/jobspec/written"
)

// lintBatch checks what no job reveals on its own.
func (l *loader) lintBatch() {
	if !l.opts.Lint || slices.ContainsFunc(l.files, func(f *fileJobs) bool { return f.partial }) {
		return
	}
	l.lintSameOutput()
	l.lintOrder()
	l.lintWorkDirs()
	l.lintOneNeed()
}

// An outputRef is one entry in the outputs of one job.
type outputRef struct{ job, text int32 }

// lintSameOutput reports two jobs that may run at the same time and write the same file.
func (l *loader) lintSameOutput() {
	refs := l.outputRefs()
	if len(refs) < 2 {
		return
	}
	o := &orders{l: l}
	told := map[*written.Job]bool{}
	first := map[string]*Job{} // that writes each path
	var v expand.Values
	for _, r := range refs {
		b := &l.batch.Jobs[r.job]
		v = l.values(b, v.Params[:0])
		path := l.outputPath(b, r.text, &v)
		a := first[path]
		if a == nil {
			first[path] = b
			continue
		}
		if t := b.Spec.text; a != b && !told[t] && !o.ordered(a, b) && !o.ordered(b, a) {
			told[t] = true
			at := &t.Outputs[r.text]
			l.files[b.File].lint(t, Problem{Lint: lintSameOutput, Line: at.Line, Col: at.Col,
				Text: fmt.Sprintf("jobs %q and %q can run at the same time and both write %s", a.Name, b.Name, path),
				Hint: "put {name} into the path, and into the command that writes it"}, false)
		}
	}
}

// outputRefs returns the outputs of all jobs that name a single path. If the only such
// text of a batch contains {name}, no two paths can be equal.
func (l *loader) outputRefs() []outputRef {
	var refs []outputRef
	var last *written.Job
	var only string
	plain := false
	for i := range l.batch.Jobs {
		t := l.batch.Jobs[i].Spec.text
		for n := range t.Outputs {
			if o := &t.Outputs[n]; !strings.ContainsAny(o.Raw, "*?[") {
				if t != last {
					plain = plain || !o.Uses(expand.VarName) || only != "" && only != o.Raw || t.WorkDir != nil || len(l.files) > 1
					only = o.Raw
				}
				refs = append(refs, outputRef{int32(i), int32(n)})
			}
		}
		last = t
	}
	if !plain {
		return nil
	}
	return refs
}

// outputPath returns the path of an output, what only an attempt knows by name.
func (l *loader) outputPath(j *Job, n int32, v *expand.Values) string {
	t := j.Spec.text
	at := *v
	at.Planned = true
	at.WorkDir, _ = t.Dir(l.batch.Files[j.File].WorkDir, v)          // checkPaths has reported what is wrong with it
	path, _ := expand.Absolute(at.WorkDir, t.Outputs[n].Render(&at)) // the same
	return path
}

// orders determines which jobs cannot run at the same time.
type orders struct {
	l     *loader
	steps int
}

// maxOrderSteps bounds the walks through the needs of a whole batch; beyond it jobs are
// assumed to be in order.
const maxOrderSteps = 2_000_000

// ordered reports whether b starts only after a has ended.
func (o *orders) ordered(a, b *Job) bool {
	if a.Queue >= 0 && a.Queue == b.Queue && a.ID < b.ID {
		return true
	}
	if len(b.Needs) == 0 {
		return false
	}
	if _, direct := slices.BinarySearch(b.Needs, a.id32()); direct {
		return true
	}
	seen := map[int32]bool{}
	todo := slices.Clone(b.Needs)
	for len(todo) > 0 {
		id := todo[len(todo)-1]
		todo = todo[:len(todo)-1]
		if o.steps++; id == a.id32() || o.steps > maxOrderSteps {
			return true
		}
		if !seen[id] {
			seen[id] = true
			todo = append(todo, o.l.batch.Jobs[id].Needs...)
		}
	}
	return false
}

// lintWorkDirs warns about work dirs that do not exist and that no job can have made.
func (l *loader) lintWorkDirs() {
	for _, f := range l.files {
		if !f.exists(f.workDir) {
			f.lint(&written.Job{}, Problem{Lint: lintMissing, Text: fmt.Sprintf("work_dir %s does not exist", f.workDir), Hint: "create it, or correct work_dir"}, true)
		}
	}
	told := map[*written.Job]bool{}
	var v expand.Values
	for i := range l.batch.Jobs {
		j := &l.batch.Jobs[i]
		t := j.Spec.text
		if t.WorkDir == nil || told[t] || len(j.Needs) > 0 || j.Queue >= 0 {
			continue
		}
		told[t] = t.WorkDir.Constant()
		f := l.files[j.File]
		v = l.values(j, v.Params[:0])
		if dir, err := t.Dir(f.workDir, &v); err == nil && f.exists(f.workDir) && !f.exists(dir) {
			told[t] = true
			f.lint(t, Problem{Lint: lintMissing, Line: t.WorkDir.Line, Col: t.WorkDir.Col,
				Text: fmt.Sprintf("work_dir of job %q does not exist: %s", j.Name, dir), Hint: "create it, or correct work_dir"}, true)
		}
	}
}

// lintConcurrent warns about max_concurrent: 0, which means no limit.
func (l *loader) lintConcurrent(g given) {
	if !l.opts.Lint {
		return
	}
	if n, err := units.ParseCount(g.text, 0); g.name == "" || err != nil || n > 0 || slices.Contains(l.batch.Settings.Allow, lintConcurrent) {
		return
	}
	l.out.Warn(Problem{File: g.file, Line: g.line, Col: g.col, Lint: lintConcurrent,
		Text: "max_concurrent: 0 means no limit: as many jobs as the GPUs take", Hint: "remove it for no limit, or set at least 1"})
}

// lintOneNeed warns about a need that is one of several expansions of its job, when
// probably all were meant.
func (l *loader) lintOneNeed() {
	told := map[*written.Job]bool{}
	for i := range l.batch.Jobs {
		j := &l.batch.Jobs[i]
		t := j.Spec.text
		if len(t.Needs) == 0 || told[t] {
			continue
		}
		told[t] = true
		for n := range t.Needs {
			if need := &t.Needs[n]; need.Constant() && !isGlob(need.Raw) {
				l.oneNeed(j, need)
			}
		}
	}
}

func (l *loader) oneNeed(j *Job, need *expand.Text) {
	var one *Job
	for _, id := range j.Needs {
		if o := &l.batch.Jobs[id]; o.Name == need.Raw && o.File == j.File {
			one = o
		}
	}
	if one == nil || one.Spec.text.Matrix == nil || one.Spec.text.Matrix.Count() < 2 || one.Spec.text == j.Spec.text {
		return
	}
	siblings := 0
	for _, id := range j.Needs {
		if l.batch.Jobs[id].Spec.text == one.Spec.text {
			siblings++
		}
	}
	if siblings == 1 {
		l.files[j.File].lint(j.Spec.text, Problem{Lint: lintOneNeed, Line: need.Line, Col: need.Col,
			Text: fmt.Sprintf("needs: %q is only one of %d expansions of its job", need.Raw, one.Spec.text.Matrix.Count()),
			Hint: fmt.Sprintf("to need all of them, write %q", expansions(one))}, true)
	}
}

// expansions returns a pattern that matches all expansions of a job's matrix.
func expansions(j *Job) string {
	t := j.Spec.text
	pattern := ""
	for i := range t.Name.Segs {
		if g := &t.Name.Segs[i]; g.Kind == expand.VarLiteral {
			pattern += g.Lit
		} else if !strings.HasSuffix(pattern, "*") {
			pattern += "*"
		}
	}
	if len(t.Suffix) > 0 && !strings.HasSuffix(pattern, "*") {
		pattern += "-*"
	}
	return pattern
}

// exists reports whether a path exists. The number of checks is bounded; beyond it a path
// is assumed to exist.
func (l *loader) exists(path string) bool {
	there, known := l.there[path]
	if !known {
		if len(l.there) == maxAsked {
			return true
		}
		there = present(path)
		l.there[path] = there
	}
	return there
}

// maxAsked bounds how many paths of a batch are checked for existence.
const maxAsked = 1000

// parents calls f for a path and then its parent folders until f returns false.
func parents(path string, f func(string) bool) {
	for f(path) && path != "/" && path != "." {
		path = filepath.Dir(path)
	}
}
