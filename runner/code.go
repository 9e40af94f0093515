package runner

import (
	"context"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"time"

	"gpurun/jobspec"
	"gpurun/runner/codecopy"
	"gpurun/runner/files"
	"gpurun/state"
)

// code returns the copy of the code that the job runs in, or nil.
func (p *preparation) code() *codecopy.Tree {
	if p.job.File >= len(p.Code) {
		return nil
	}
	return p.Code[p.job.File]
}

// copyAt returns the copy that an attempt of an earlier run runs in, by what its start has
// recorded; nil if there is none.
func (l *loop) copyAt(home string) *codecopy.Tree {
	if home == "" {
		return nil
	}
	dir := filepath.Dir(home)
	if t := l.attempts.copies[dir]; t != nil {
		return t
	}
	t, err := codecopy.Load(dir)
	if err != nil {
		l.warn(fmt.Sprintf("the copy of the code in %s cannot be read, so what jobs write there is not moved to the work dir: %v", dir, err))
		return nil
	}
	l.attempts.copies[dir] = t
	return t
}

// written returns the paths that an attempt's job says it writes.
func written(outputs []string, metrics []jobspec.Metric) []string {
	paths := append([]string{}, outputs...)
	for _, m := range metrics {
		if m.Path != "" {
			paths = append(paths, m.Path)
		}
	}
	return paths
}

// inputsIn reads the inputs of a job as it finds them: single files in its copy of the code, all
// else where it belongs.
func inputsIn(ctx context.Context, code *codecopy.Tree, r jobspec.Rendered) ([]state.Input, error) {
	if code == nil {
		return files.Inputs(ctx, r.Inputs)
	}
	paths := append([]string{}, r.Inputs...)
	for i, p := range paths {
		code.Show(p)
		if fi, err := os.Stat(code.Map(p)); err == nil && fi.Mode().IsRegular() {
			paths[i] = code.Map(p)
		}
	}
	inputs, err := files.Inputs(ctx, paths)
	for i := range inputs {
		inputs[i].Path = code.Given(code.Back(inputs[i].Path))
	}
	return inputs, err
}

// gatherEvery is how often what jobs have written into copies of the code is looked for while
// they run.
const gatherEvery = 10 * time.Second

// collect has what jobs have made in copies of the code moved to the work dir: one pass at a time,
// since on a slow file system one can take longer than the time between two.
func (l *loop) collect() {
	a := &l.attempts
	if len(a.users) == 0 || a.gathering || l.Now().Boot-a.gathered < gatherEvery {
		return
	}
	a.gathering = true
	codes := slices.Collect(maps.Keys(a.users))
	l.beside(func() func() {
		var notes []string
		for _, code := range codes {
			notes = append(notes, gathered(code, true)...)
		}
		return func() {
			a.gathering, a.gathered = false, l.Now().Boot
			l.warn(notes...)
		}
	})
}

// use counts an attempt in a copy of the code, which may be nil.
func (l *loop) use(code *codecopy.Tree) {
	if code != nil {
		l.attempts.users[code]++
	}
}

// release is called when an attempt in a copy of the code is over. One that nobody is in, nor
// will be, is removed.
func (l *loop) release(code *codecopy.Tree) {
	if code == nil {
		return
	}
	if l.attempts.users[code]--; l.attempts.users[code] == 0 {
		delete(l.attempts.users, code)
		l.retire(code)
	}
}

func (l *loop) retire(code *codecopy.Tree) {
	if code == nil || l.attempts.users[code] > 0 || slices.Contains(l.Code, code) {
		return
	}
	l.beside(func() func() {
		notes := code.Remove(time.Now())
		return func() { l.warn(notes...) }
	})
}

func gathered(code *codecopy.Tree, busy bool) []string {
	_, kept, err := code.Gather(busy, time.Now())
	var notes []string
	if len(kept) > 0 {
		notes = append(notes, codecopy.Kept(kept))
	}
	if err != nil {
		notes = append(notes, "what jobs wrote in the copy of the code "+code.Home()+" is still there: "+err.Error())
	}
	return notes
}

// leave is what becomes of what an attempt has written in its copy of the code. It returns what
// to do beside the loop: before the end is judged, and after.
func (l *loop) leave(at *attempt) (bring func(), rest func() []string) {
	code := at.code
	if code == nil {
		return func() {}, func() []string { return nil }
	}
	busy := l.attempts.users[code] > 1
	var now *codecopy.Tree
	if at.file < len(l.Code) {
		now = l.Code[at.file]
	}
	var failed error
	paths := written(at.outputs, at.metrics)
	bring = func() {
		failed = code.Bring(paths)
		if now == nil || now == code {
			return
		}
		for _, p := range paths { // for jobs that need it
			now.Show(p)
		}
	}
	return bring, func() []string {
		notes := gathered(code, busy)
		if failed != nil {
			notes = append(notes, fmt.Sprintf("%s: its outputs are still in the copy of the code, %s: %v", at.launch.Job, code.Home(), failed))
		}
		return notes
	}
}

// missing returns the first output that an attempt has not written. One in its copy of the code
// that nobody has brought yet counts.
func (at *attempt) missing() (string, error) {
	code, paths := at.code, slices.Clone(at.outputs)
	for {
		p, err := files.MissingOutput(paths)
		if p == "" || at.snapshot == "" {
			return p, err
		}
		if code == nil {
			if code, _ = codecopy.Load(filepath.Dir(at.snapshot)); code == nil {
				return p, err
			}
		}
		there := code.Map(p)
		if there == p {
			return code.Given(code.Back(p)), err
		}
		paths[slices.Index(paths, p)] = there
	}
}
