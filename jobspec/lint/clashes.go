package lint

import (
	"fmt"
	"slices"
	"strings"

	"gpurun/jobspec/expand"
	"gpurun/jobspec/source"
)

// A Batch gives access to the jobs to run. Their IDs are 0 to Len-1, in order.
type Batch struct {
	Files []File
	Len   int
	Job   func(id int32) Expansion
}

// A File is one job file of a batch.
type File struct {
	Source  *source.Source
	WorkDir string
}

// An Expansion is one job of a batch.
type Expansion struct {
	*expand.Job
	ID    int32
	File  int
	Name  string
	Needs []int32 // ascending
	Queue int32   // -1 for none
	Combo int     // index of the expansion in its matrix
}

// A batchChecker runs the checks that need the whole batch.
type batchChecker struct {
	*Checker
	Batch
	steps int // steps taken so far through the needs of jobs
	made  *producers
}

// CheckBatch runs the checks that need the whole batch.
func (c *Checker) CheckBatch(batch Batch) {
	b := &batchChecker{Checker: c, Batch: batch}
	b.sameOutput()
	b.order()
	b.workDirs()
	b.oneNeed()
	if !c.Remote {
		b.missingScripts()
	}
}

// jobs calls f for each expansion. Once f returns true for one, the remaining expansions of the same
// job in the file are skipped.
func (b *batchChecker) jobs(f func(e *Expansion) (told bool)) {
	told := map[*expand.Job]bool{}
	for id := range int32(b.Len) {
		if told[b.Job(id).Job] {
			continue
		}
		e := b.Job(id)
		told[e.Job] = f(&e)
	}
}

func (b *batchChecker) find(e *Expansion, lint string, at *expand.Text, warn bool, hint, format string, args ...any) {
	b.Find(b.Files[e.File].Source, e.Job, source.Problem{Lint: lint, Line: at.Line, Col: at.Col, Text: fmt.Sprintf(format, args...), Hint: hint}, warn)
}

func isGlob(path string) bool { return strings.ContainsAny(path, "*?[") }

// path returns a path of a job. Variables that only an attempt has are not replaced.
func (b *batchChecker) path(e *Expansion, t *expand.Text) (string, error) {
	v, err := e.Plan(b.Files[e.File].WorkDir, e.Combo, e.Name)
	if err != nil {
		return "", err
	}
	return expand.Absolute(v.WorkDir, t.Render(v))
}

// sameOutput reports jobs that may write to the same file at the same time.
func (b *batchChecker) sameOutput() {
	if b.distinct() {
		return
	}
	first := map[string]int32{} // the first job that writes each path
	told := map[*expand.Job]bool{}
	for id := range int32(b.Len) {
		e := b.Job(id)
		for _, t := range e.Outputs {
			path, err := b.path(&e, t)
			if isGlob(t.Raw) || err != nil { // already reported
				continue
			}
			other, taken := first[path]
			if !taken {
				first[path] = id
				continue
			}
			if o := b.Job(other); other != id && !told[e.Job] && !b.ordered(&o, &e) && !b.ordered(&e, &o) {
				told[e.Job] = true
				b.find(&e, SameOutput, t, false, "add {name} to the path, here and in the command that writes it",
					"jobs %q and %q both write %s and can run at the same time", o.Name, e.Name, path)
			}
		}
	}
}

// distinct reports whether all outputs must differ: there are none, or there is only one file and
// one work dir, and all outputs are spelled the same and contain {name}. Large batches then need no
// search.
func (b *batchChecker) distinct() bool {
	spelt, named := map[string]bool{}, true
	b.jobs(func(e *Expansion) bool {
		for _, o := range e.Outputs {
			if !isGlob(o.Raw) {
				spelt[o.Raw] = true
				named = named && o.Uses(expand.VarName) && e.WorkDir == nil
			}
		}
		return true
	})
	return len(spelt) == 0 || len(spelt) == 1 && named && len(b.Files) == 1
}

// maxSteps bounds the total number of steps through the needs of a batch. Beyond it, jobs are
// assumed to be in order.
const maxSteps = 2_000_000

// ordered reports whether the second job starts only once the first has ended.
func (b *batchChecker) ordered(before, after *Expansion) bool {
	if before.Queue >= 0 && before.Queue == after.Queue && before.ID < after.ID {
		return true
	}
	if _, direct := slices.BinarySearch(after.Needs, before.ID); direct {
		return true
	}
	seen := map[int32]bool{}
	todo := slices.Clone(after.Needs)
	for len(todo) > 0 {
		id := todo[len(todo)-1]
		todo = todo[:len(todo)-1]
		if b.steps++; id == before.ID || b.steps > maxSteps {
			return true
		}
		if !seen[id] {
			seen[id] = true
			todo = append(todo, b.Job(id).Needs...)
		}
	}
	return false
}

// workDirs warns about work dirs that do not exist and that no job can create.
func (b *batchChecker) workDirs() {
	for _, f := range b.Files {
		if !b.exists(f.WorkDir) {
			b.Find(f.Source, &expand.Job{}, source.Problem{Lint: Missing, Text: fmt.Sprintf("work_dir %s does not exist", f.WorkDir), Hint: "create it, or fix work_dir"}, true)
		}
	}
	b.jobs(func(e *Expansion) bool {
		if e.WorkDir == nil || len(e.Needs) > 0 || e.Queue >= 0 {
			return e.WorkDir == nil
		}
		base := b.Files[e.File].WorkDir
		v, err := e.Plan(base, e.Combo, e.Name)
		if err != nil || !b.exists(base) || b.exists(v.WorkDir) {
			return e.WorkDir.Constant()
		}
		b.find(e, Missing, e.WorkDir, true, "create it, or fix work_dir", "work_dir of job %q does not exist: %s", e.Name, v.WorkDir)
		return true
	})
}

// oneNeed warns about a need that names one of several expansions of a job, because all of them were
// probably meant.
func (b *batchChecker) oneNeed() {
	b.jobs(func(e *Expansion) bool {
		for _, need := range e.Job.Needs {
			if need.Constant() && !isGlob(need.Raw) {
				b.oneOf(e, need)
			}
		}
		return true
	})
}

func (b *batchChecker) oneOf(e *Expansion, need *expand.Text) {
	var one *expand.Job
	siblings := map[*expand.Job]int{}
	for _, id := range e.Needs {
		o := b.Job(id)
		siblings[o.Job]++
		if o.Name == need.Raw && o.File == e.File {
			one = o.Job
		}
	}
	if one == nil || one == e.Job || siblings[one] > 1 || one.Matrix.Count() < 2 {
		return
	}
	b.find(e, OneNeed, need, true, fmt.Sprintf("to wait for all of them, write %q", expansions(one)),
		"needs: %q is only one of the %d jobs of its matrix", need.Raw, one.Matrix.Count())
}

// expansions returns a pattern that matches all expansions of a job's matrix.
func expansions(j *expand.Job) string {
	pattern := ""
	for _, g := range j.Name.Segs {
		if g.Kind == expand.VarLiteral {
			pattern += g.Lit
		} else if !strings.HasSuffix(pattern, "*") {
			pattern += "*"
		}
	}
	if len(j.Suffix) > 0 && !strings.HasSuffix(pattern, "*") {
		pattern += "-*"
	}
	return pattern
}
