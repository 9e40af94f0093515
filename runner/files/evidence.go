package files

import (
	"cmp"
	"context"
	"errors"
	"math"
	"os"
	"runtime"
	"slices"
	"strings"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"gpurun/jobspec"
	"gpurun/runner/sched"
	"gpurun/state"
)

// Evidence checks the files of selected jobs whose last attempt succeeded or reported points for
// prune, except forced jobs. It returns its findings by job ID. It reads nothing for jobs that
// declare no outputs, inputs or log.
func Evidence(b *jobspec.Batch, h *state.History, o sched.Options) map[int]sched.Evidence {
	w, found := checker{batch: b, history: h, search: NewLook()}, map[int]sched.Evidence{}
	whole := w.unchanged()
	for id := range b.Jobs {
		j := &b.Jobs[id]
		if whole[id] || !declares(j.Spec) || o.Selected != nil && !o.Selected[id] || o.Forced != nil && o.Forced[id] {
			continue
		}
		r := h.Of(j.File, j.Key.String())
		// Points for prune count only while the job's inputs are the same.
		if r == nil || r.State != state.Succeeded && len(r.Points) == 0 || r.Forgotten {
			continue
		}
		if e := w.look(j, r); e != (sched.Evidence{}) {
			found[id] = e
		}
	}
	return found
}

// unchanged finds jobs whose outputs or log are as their last success left them. It does not read the
// jobs' records: for 100,000 jobs, reading two ledger lines each would take most of the time. The
// other jobs may be unchanged as well.
func (w *checker) unchanged() []bool {
	whole, ended := make([]bool, len(w.batch.Jobs)), make([]state.Plain, len(w.batch.Jobs))
	for id := range ended {
		if j := &w.batch.Jobs[id]; declares(j.Spec) && !j.Spec.HasInputs {
			ended[id] = w.history.Plain(j.File, j.Key)
		}
	}
	var parts sync.WaitGroup
	for n, part := runtime.GOMAXPROCS(0), 0; part < n; part++ {
		parts.Go(func() {
			for id := part; id < len(whole); id += n {
				whole[id] = ended[id] != 0 && w.untouched(&w.batch.Jobs[id], time.Unix(0, int64(ended[id])))
			}
		})
	}
	parts.Wait()
	return whole
}

// untouched reports whether a job's outputs, or else its log, exist and no output was written after
// the job ended.
func (w *checker) untouched(j *jobspec.Job, ended time.Time) bool {
	got, err := w.batch.Paths(j, jobspec.Runtime{UniID: unknown, Attempt: math.MinInt, Log: unknown, Started: unknown, Later: func(string) string { return unknown }})
	paths := got.Outputs
	if !j.Spec.HasOutputs {
		paths = []string{got.Stdout}
	}
	for _, p := range paths {
		var st unix.Stat_t
		if err != nil || unix.Stat(p, &st) != nil || strings.Contains(p, unknown) ||
			j.Spec.HasOutputs && st.Mode&unix.S_IFMT == unix.S_IFREG && time.Unix(st.Mtim.Unix()).After(ended) {
			return false
		}
	}
	return err == nil
}

// unknown is a placeholder for the part of a path that only the record has.
const unknown = "\x01"

func declares(s *jobspec.Spec) bool { return s.HasOutputs || s.HasInputs || s.LogNamed }

// EvidenceOf checks the files of one job against the record of its success.
func EvidenceOf(b *jobspec.Batch, j *jobspec.Job, r *state.Record) sched.Evidence {
	if !declares(j.Spec) {
		return sched.Evidence{}
	}
	w := checker{batch: b, search: NewLook()}
	return w.look(j, r)
}

// Lacks describes the first missing output of a job, or returns "".
func Lacks(b *jobspec.Batch, j *jobspec.Job) string {
	if !j.Spec.HasOutputs {
		return ""
	}
	got, err := b.Paths(j, jobspec.Runtime{Attempt: 1})
	if err != nil {
		return err.Error()
	}
	switch p, err := MissingOutput(got.Outputs); {
	case p == "":
		return ""
	case err != nil:
		return "output " + Short(got.WorkDir, p) + ": " + err.Error()
	default:
		return "output " + Short(got.WorkDir, p) + " is missing"
	}
}

type checker struct {
	batch   *jobspec.Batch
	history *state.History // for Overwritten; may be nil
	search  *Search
}

// Runtime returns what determines the paths of an attempt, as its start or its record has it.
func Runtime(f *state.Fact) jobspec.Runtime {
	return jobspec.Runtime{UniID: f.UniID, Attempt: max(1, f.Attempt), GPUs: f.GPUs, Port: f.Port, Started: f.Started, Log: f.Log}
}

func (w *checker) look(j *jobspec.Job, r *state.Record) sched.Evidence {
	got, err := w.batch.Paths(j, Runtime(&r.Fact))
	if err != nil {
		// The output may exist. The attempt will report the error.
		return sched.Evidence{MissingOutput: "(" + err.Error() + ")"}
	}
	dir, outputs := got.WorkDir, got.Outputs
	if r.By == state.ByDoneWithout {
		outputs = nil
	}
	missing, overwritten, unsure := w.outputs(j, r, outputs)
	changed, unsureInput := w.changedInput(got.Inputs, r)
	e := sched.Evidence{
		MissingOutput: Short(dir, missing), Overwritten: Short(dir, overwritten), ChangedInput: Short(dir, changed),
		LogDeleted: j.Spec.LogNamed && !j.Spec.HasOutputs && logGone(got.Stdout, r),
	}
	if unsure = cmp.Or(unsureInput, unsure); unsure != nil {
		e.Unsearched = (&GaveUp{Short(dir, unsure.Pattern), unsure.After}).Error()
	}
	return e
}

// outputs returns the first missing output, or else the first one overwritten by a newer attempt of
// the same job name with another key: the command was changed, run, and changed back. Only
// individually named regular files count as overwritten, because other jobs may also change a
// folder or the matches of a glob. If a search was cut short, its pattern does not count as
// missing: a recorded success stays valid until its output is known to be gone.
func (w *checker) outputs(j *jobspec.Job, r *state.Record, patterns []string) (missing, overwritten string, unsure *GaveUp) {
	for _, p := range patterns {
		fi, err := os.Stat(p)
		there := err == nil
		if !there {
			var gaveUp error
			there, gaveUp = w.search.matches(p)
			there = errors.As(gaveUp, &unsure) || there
		}
		switch {
		case !there:
			return p, "", nil
		case err != nil || w.history == nil || overwritten != "" || !fi.Mode().IsRegular() || !fi.ModTime().After(r.Time):
		case w.overwrittenByOther(j, r, fi.ModTime()):
			overwritten = p
		}
	}
	return "", overwritten, unsure
}

func (w *checker) overwrittenByOther(j *jobspec.Job, r *state.Record, written time.Time) bool {
	other := w.history.Named(j.File, j.Name)
	if other == nil || other.Key == r.Key || other.Start.Before(r.Time) { // Start is zero for jobs that a user marked done
		return false
	}
	return !written.Before(other.Start.Add(-tick)) && !written.After(other.Time)
}

// tick is how far file times may lag behind the clock.
const tick = 10 * time.Millisecond

// logGone reports whether both the log in the job file and the recorded log are missing. Jobs that
// a user marked done have no log.
func logGone(path string, r *state.Record) bool {
	return r.Log != "" && !slices.ContainsFunc([]string{path, r.Log}, func(p string) bool { _, err := os.Stat(p); return err == nil })
}

// changedInput returns the first input that changed since the attempt of r started. A deleted input
// does not count: the job has already read it.
func (w *checker) changedInput(patterns []string, r *state.Record) (path string, unsure *GaveUp) {
	began := r.Start
	if began.IsZero() {
		began = r.Time.Add(-time.Duration(r.Seconds * float64(time.Second)))
	}
	for _, p := range patterns {
		list, err := w.search.match(p, r)
		errors.As(err, &unsure)
		for _, now := range list {
			if w.search.differs(now, r.Inputs, began) {
				return now.Path, nil
			}
		}
	}
	return "", unsure
}

// match returns the matches of a pattern with sizes and times, but does not hash individual files. It
// combines the matches into one input if the recorded start did.
func (s *Search) match(pattern string, r *state.Record) ([]state.Input, error) {
	paths, err := s.glob(pattern)
	if err != nil || len(paths) == 0 {
		return nil, err
	}
	if wasSummed(pattern, paths, r) {
		in, err := s.sum(context.Background(), pattern, paths)
		if err != nil {
			return nil, nil
		}
		return []state.Input{in}, nil
	}
	var out []state.Input
	for _, p := range paths {
		if info, err := os.Stat(p); err == nil {
			in := state.Input{Path: p, Size: info.Size(), MTime: info.ModTime().UTC()}
			if info.IsDir() {
				in, err = s.content(context.Background(), p)
			}
			if err == nil {
				out = append(out, in)
			}
		}
	}
	return out, nil
}

func wasSummed(pattern string, paths []string, r *state.Record) bool {
	literal := len(paths) == 1 && paths[0] == pattern
	return !literal && slices.ContainsFunc(r.Inputs, func(in state.Input) bool { return in.Path == pattern })
}

// differs is like changed, but reads content only if the times alone do not decide.
func (s *Search) differs(now state.Input, before []state.Input, start time.Time) bool {
	if !changed(now, before, start) {
		return false
	}
	if now.Hash == "" && now.Size <= maxHashed {
		if full, err := s.content(context.Background(), now.Path); err == nil {
			now = full
		}
	}
	return changed(now, before, start)
}
