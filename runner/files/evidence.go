package files

import (
	"context"
	"errors"
	"os"
	"sync"
	"time"

	"gpurun/jobspec"
	"gpurun/runner/sched"
	"gpurun/state"
)

// Evidence looks, job by job as it is asked, at what the file system says of jobs
// whose last end was a success. Of other jobs, and of those that declare neither
// outputs nor inputs nor a log, it says nothing and reads nothing. Several
// goroutines may ask.
func Evidence(b *jobspec.Batch, h *state.History) func(id int) sched.Evidence {
	return evidence(b, h, &witness{batch: b, reader: newLookingReader()})
}

// Lacks is the first output of a job that is not there, in words, or "".
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

// Remarks is Evidence with what changes nothing and is worth saying: Overwritten,
// for which the newest attempt of each name must be known.
func Remarks(b *jobspec.Batch, h *state.History) func(id int) sched.Evidence {
	return evidence(b, h, &witness{batch: b, history: h, reader: newLookingReader()})
}

func evidence(b *jobspec.Batch, h *state.History, w *witness) func(id int) sched.Evidence {
	return func(id int) sched.Evidence {
		j := &b.Jobs[id]
		s := j.Spec
		if !s.HasOutputs && !s.HasInputs && !s.LogNamed {
			return sched.Evidence{}
		}
		r := h.Of(j.File, j.Key.String())
		if r == nil || r.State != state.Succeeded || r.Forgotten {
			return sched.Evidence{}
		}
		return w.look(j, r)
	}
}

type witness struct {
	batch *jobspec.Batch

	mu      sync.Mutex
	history *state.History // for remarks; nil for none
	reader  *reader
}

func (w *witness) look(j *jobspec.Job, r *state.Record) sched.Evidence {
	attempt := max(1, r.Attempt)
	gpus := make([]int, r.GPUs)
	got, err := w.batch.Paths(j, jobspec.Runtime{UniID: r.UniID, Attempt: attempt, GPUs: gpus, Log: r.Log})
	if err != nil {
		// Whether it is there cannot be told; the attempt will say why.
		return sched.Evidence{MissingOutput: "(" + err.Error() + ")"}
	}
	var e sched.Evidence
	outputs := got.Outputs
	if r.By == state.ByDoneWithout {
		outputs = nil
	}
	missing, overwritten, unsure := w.outputs(j, r, outputs)
	if unsure != nil {
		e.Unsearched = unsure.short(got.WorkDir)
	}
	if missing != "" {
		e.MissingOutput = Short(got.WorkDir, missing)
	}
	if overwritten != "" {
		e.Overwritten = Short(got.WorkDir, overwritten)
	}
	in, unsure := w.changedInput(got.Inputs, r)
	if in != "" {
		e.ChangedInput = Short(got.WorkDir, in)
	} else if unsure != nil {
		e.Unsearched = unsure.short(got.WorkDir)
	}
	e.LogDeleted = j.Spec.LogNamed && !j.Spec.HasOutputs && logGone(got.Stdout, r)
	return e
}

// outputs finds the first one that is missing, or else the first one that was
// written while the newest attempt of the job's name ran, if that had another key and
// came after r: the command was changed, run, and changed back. For that only plain
// files that are named one by one are looked at: a folder, or what a glob matches, may
// change by the hand of many. A pattern that cannot be searched to its end is not
// missing: a success that is on record counts until its output is known to be gone.
func (w *witness) outputs(j *jobspec.Job, r *state.Record, patterns []string) (missing, overwritten string, unsure *GaveUp) {
	for _, p := range patterns {
		fi, err := os.Stat(p)
		there := err == nil
		if !there {
			var gaveUp error
			there, gaveUp = w.reader.search.matches(p)
			there = errors.As(gaveUp, &unsure) || there
		}
		switch {
		case !there:
			return p, "", nil
		case err != nil || w.history == nil || overwritten != "" || !fi.Mode().IsRegular() || !fi.ModTime().After(r.End):
		case w.writtenByAnother(j, r, fi.ModTime()):
			overwritten = p
		}
	}
	return "", overwritten, unsure
}

func (w *witness) writtenByAnother(j *jobspec.Job, r *state.Record, written time.Time) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	other := w.history.Named(j.File, j.Name)
	if other == nil || other.Key == r.Key || other.Start.Before(r.End) { // zero of what a person called done
		return false
	}
	return !written.Before(other.Start.Add(-tick)) && !written.After(other.End)
}

// tick is by how much the clock of file times may be behind.
const tick = 10 * time.Millisecond

// logGone says that neither the log as the job file has it now nor the one that
// was written is there. What a person called done has written none.
func logGone(path string, r *state.Record) bool {
	if r.Log == "" {
		return false
	}
	for _, p := range []string{path, r.Log} {
		if _, err := os.Stat(p); err == nil {
			return false
		}
	}
	return true
}

// changedInput is the first input that has changed since the attempt of r
// started. One that is gone has not: what needs it and is up to date has read it.
func (w *witness) changedInput(patterns []string, r *state.Record) (path string, unsure *GaveUp) {
	w.mu.Lock()
	defer w.mu.Unlock()
	began := r.Start
	if began.IsZero() {
		began = r.End.Add(-time.Duration(r.Seconds * float64(time.Second)))
	}
	for _, p := range patterns {
		list, err := w.reader.match(p, r)
		errors.As(err, &unsure)
		for _, now := range list {
			if w.reader.differs(now, r.Inputs, began) {
				return now.Path, nil
			}
		}
	}
	return "", unsure
}

// match is what a pattern stands for now, with sizes and times but no hashes; in
// one where the start recorded it as one.
func (rd *reader) match(pattern string, r *state.Record) ([]state.Input, error) {
	paths, err := rd.search.glob(pattern)
	if err != nil || len(paths) == 0 {
		return nil, err
	}
	if wasSummed(pattern, paths, r) {
		in, err := rd.sum(context.Background(), pattern, paths)
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
				in, err = rd.content(context.Background(), p)
			}
			if err == nil {
				out = append(out, in)
			}
		}
	}
	return out, nil
}

func wasSummed(pattern string, paths []string, r *state.Record) bool {
	if len(paths) == 1 && paths[0] == pattern {
		return false
	}
	for _, in := range r.Inputs {
		if in.Path == pattern {
			return true
		}
	}
	return false
}

// differs is changed, reading the content only where the time alone does not
// tell: of a file that is as old as it was, nothing is read.
func (rd *reader) differs(now state.Input, before []state.Input, start time.Time) bool {
	if !changed(now, before, start) {
		return false
	}
	if now.Hash == "" && now.Size <= maxHashed {
		full, err := rd.content(context.Background(), now.Path)
		if err == nil {
			now = full
		}
	}
	return changed(now, before, start)
}
