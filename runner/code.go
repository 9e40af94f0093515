package runner

import (
	"context"
	"errors"
	"fmt"
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

// copyAt returns the copy of the code that an attempt of an earlier run uses, or nil. home is the
// path in the attempt's start fact.
func (l *loop) copyAt(home string) *codecopy.Tree {
	if home == "" {
		return nil
	}
	dir := filepath.Dir(home)
	for t := range l.attempts.copies {
		if t.Dir == dir {
			return t
		}
	}
	t, err := codecopy.Load(dir)
	if err != nil {
		l.warn(fmt.Sprintf("cannot read the copy of the code in %s, so files that jobs wrote there are not moved to the work dir: %v", dir, err))
		return nil
	}
	return t
}

// written returns the paths that a job is declared to write.
func written(outputs []string, metrics []jobspec.Metric) []string {
	paths := append([]string{}, outputs...)
	for _, m := range metrics {
		if m.Path != "" {
			paths = append(paths, m.Path)
		}
	}
	return paths
}

// inputsIn reads a job's inputs as the job sees them: single files from its copy of the code,
// everything else from the original place.
func inputsIn(ctx context.Context, code *codecopy.Tree, r jobspec.Rendered) ([]state.Input, error) {
	if code == nil {
		return files.Inputs(ctx, r.Inputs)
	}
	paths := slices.Clone(r.Inputs)
	for i, p := range paths {
		if fi, err := os.Stat(code.Map(p)); err == nil && fi.Mode().IsRegular() {
			paths[i] = code.Map(p)
		}
	}
	inputs, err := files.Inputs(ctx, paths)
	for i := range inputs {
		inputs[i].Path = code.Back(inputs[i].Path)
	}
	return inputs, err
}

// settled marks a copy whose files have been moved to the work dir, or are being moved.
const settled = -1

// use changes the number of attempts in a copy of the code by the given amount. code may be nil.
func (l *loop) use(code *codecopy.Tree, by int) {
	if code != nil {
		l.attempts.copies[code] = max(l.attempts.copies[code], 0) + by
	}
}

// settleEvery is how often unused copies of the code are settled.
const settleEvery = 10 * time.Second

// settle handles the copies of the code that no attempt uses: it moves the files that jobs wrote
// there to the work dir. A start in such a copy waits until the files have moved. At the end of the
// run, settle returns only after moving all files.
func (l *loop) settle(over bool) {
	a, now := &l.attempts, l.Now().Boot
	if !over && now-a.settled < settleEvery {
		return
	}
	a.settled = now
	for code, n := range a.copies {
		old := !slices.Contains(l.Code, code)
		home := func() func() {
			notes, done := code.Settle(old)
			return func() {
				l.warn(notes...)
				if !done {
					l.use(code, 0)
				}
			}
		}
		switch {
		case over && n <= 0:
			code.Lock()
			home()()
		case n == 0 && code.TryLock():
			a.copies[code] = settled
			l.offload(home)
		}
	}
}

// bring returns a function to call outside the loop before an attempt's end is judged. The function
// moves the job's declared files from its copy of the code to the work dir, and links them into the
// current copy.
func (l *loop) bring(at *attempt) func() []string {
	var now *codecopy.Tree
	if at.file < len(l.Code) {
		now = l.Code[at.file]
	}
	return func() []string {
		if at.code == nil {
			return nil
		}
		paths := written(at.outputs, at.metrics)
		err := at.code.MoveOutputs(paths)
		if now != nil && now != at.code {
			err = errors.Join(err, now.Link(paths...))
		}
		if err != nil {
			return []string{fmt.Sprintf("%s: its outputs were not moved to the work dir and are still in the copy of the code in %s: %v", at.launch.Job, at.code.Home(), err)}
		}
		return nil
	}
}

// missing returns the first output that an attempt has not written. An output that is still in the
// copy of the code counts as written.
func (at *attempt) missing() (string, error) {
	code := at.code
	if code == nil && at.snapshot != "" {
		code, _ = codecopy.Load(filepath.Dir(at.snapshot))
	}
	for _, p := range at.outputs {
		missing, err := files.MissingOutput([]string{p})
		if missing != "" && code != nil {
			missing, err = files.MissingOutput([]string{code.Map(p)})
		}
		if missing != "" {
			return p, err
		}
	}
	return "", nil
}
