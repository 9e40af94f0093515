package cli

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	"gpurun/jobspec"
	"gpurun/runner"
	"gpurun/runner/control"
	"gpurun/state"
	"gpurun/state/disk"
	"gpurun/state/host"
)

// maxTaken bounds the bytes of facts in one request to a run.
const maxTaken = 256 << 10

// takeOver records in a batch's ledger what succeeded under another job file.
func (c *doneCmd) takeOver(a *app) error {
	if err := noFiles(c.Jobs); err != nil {
		return err
	}
	refs, err := a.find(c.File, toChange)
	if err != nil {
		return err
	}
	ref := refs[0]
	old, err := a.batchOf(c.From)
	switch {
	case err != nil:
		return err
	case old.real == ref.real:
		return &failure{code: exitUsage, text: "--from " + old.file + " is the batch itself", hint: "name the new file: gpurun done --from " + old.file + " --file NEW.yaml"}
	case old.doubt != nil:
		return stateFailure(old.doubt)
	case old.alive:
		return &failure{code: exitFailed, text: fmt.Sprintf("%s is running (process %d): nothing was taken over, or what it runs now would run twice", old.file, old.runner.PID),
			hint: "gpurun wait --file " + old.file + " waits for it; then try again"}
	}
	batch, last, err := a.successesOf(old, ref)
	if err != nil {
		return err
	}
	rep, facts, err := c.choose(batch, last, old)
	if err != nil {
		return err
	}
	if err := ref.giveTo(facts, &rep); err != nil {
		return err
	}
	for _, f := range facts {
		disk.TakeCurve(old.dir, ref.dir, f.UniID)
	}
	return a.tell(ref, rep, "taken over from "+old.file, true)
}

// successesOf reads what succeeded in a batch that no run is working on, by key, and the jobs
// that may take it over. Attempts that outlived their run must have ended.
func (r *reader) successesOf(old, ref *batchRef) (*jobspec.Batch, map[string]state.Fact, error) {
	h, _, err := r.readState([]string{old.real})
	if err != nil {
		return nil, nil, err
	}
	here, _, err := r.readState([]string{ref.real})
	if err != nil {
		return nil, nil, err
	}
	given := here.LastRun(0).Params
	if here.LastRun(0).Kind == "" {
		given = h.LastRun(0).Params
	}
	batch, err := r.loadAgain(given, ref.file)
	if err != nil {
		return nil, nil, err
	}
	m := settle(batch, h, func(int) string { return old.dir }, false)
	if open := h.Attempts(); len(open) > 0 {
		var jobs []string
		for _, at := range open {
			jobs = append(jobs, at.Start.Job)
		}
		return nil, nil, &failure{code: exitFailed, text: fmt.Sprintf("%s: %s of %s may still be running: nothing was taken over, or it would run twice",
			old.file, strings.Join(jobs, ", "), old.file), hint: "gpurun wait --file " + old.file + " waits for the end, gpurun stop --file " + old.file + " ends it; then try again"}
	}
	var run state.Fact
	last, starts, runs := map[string]state.Fact{}, map[string]state.Fact{}, map[string]state.Fact{}
	take := func(_ int64, f state.Fact) {
		switch f.Kind {
		case state.KindRun:
			run = f
		case state.KindStart:
			starts[f.UniID], runs[f.UniID] = f, run
		case state.KindEnd:
			delete(last, cmp.Or(f.Key, starts[f.UniID].Key))
			if f.State == state.Succeeded && f.From == "" {
				f = state.TakenOver(old.file, runs[f.UniID], starts[f.UniID], f)
			}
			if f.State == state.Succeeded {
				last[f.Key] = f
			}
			delete(starts, f.UniID)
			delete(runs, f.UniID)
		case state.KindForget:
			delete(last, f.Key)
		}
	}
	disk.FromStart(old.dir).Next(take)
	for _, f := range m.ends {
		take(0, f)
	}
	return batch, last, nil
}

// moved is what succeeded under the name of a job file that is gone, of a batch that has never
// run under its own: most likely it was renamed.
type moved struct {
	from, to string
	jobs     int
	hours    float64
}

func (r *reader) movedFrom(b *jobspec.Batch, h *state.History, runs func(id int) bool) (most moved) {
	if len(b.Files) != 1 || !h.Empty() || len(h.Open) > 0 {
		return most
	}
	for _, old := range disk.Batches(filepath.Dir(b.Files[0].Real), r.stateDir) {
		if host.Exists(old.File) {
			continue
		}
		past, _, err := r.readState([]string{old.File})
		if err != nil {
			continue
		}
		m := moved{from: shown(old.File), to: b.Files[0].Path}
		for id := range b.Jobs {
			if r := past.Of(0, b.Jobs[id].Key.String()); r != nil && r.State == state.Succeeded && !r.Forgotten && runs(id) {
				m.jobs++
				m.hours += r.Seconds / 3600 * float64(len(r.GPUs))
			}
		}
		if m.jobs > most.jobs {
			most = m
		}
	}
	return most
}

// choose returns the successes of the jobs that are meant, under the names that these have now.
func (c *doneCmd) choose(b *jobspec.Batch, last map[string]state.Fact, old *batchRef) (rep control.Reply, facts []state.Fact, err error) {
	in := slices.Repeat([]bool{true}, len(b.Jobs))
	if len(c.Jobs) > 0 {
		if in, err = matching(b, c.Jobs); err != nil {
			return rep, nil, err
		}
	}
	for id := range b.Jobs {
		j := &b.Jobs[id]
		f, done := last[j.Key.String()]
		switch {
		case in[id] && done:
			f.Job = j.Name
			facts = append(facts, f)
		case in[id]:
			rep.Keep("no success in "+old.file, j.Name)
		}
	}
	if len(facts) == 0 {
		return rep, nil, &failure{code: exitFailed, text: fmt.Sprintf("%s: none of these jobs has succeeded in %s: nothing was taken over", b.Files[0].Path, old.file),
			hint: "jobs are the same if they do the same: same commands, parameters, environment and work dir"}
	}
	return rep, facts, nil
}

// giveTo has the batch's run record the facts, or without one, its ledger.
func (ref *batchRef) giveTo(facts []state.Fact, rep *control.Reply) error {
	for from := 0; from < len(facts); {
		size, to := 0, from
		for ; to < len(facts) && (to == from || size < maxTaken); to++ {
			text, err := json.Marshal(facts[to])
			if err != nil {
				return err
			}
			size += len(text)
		}
		r, err := ref.ask(control.Request{Op: control.OpDone, File: ref.real, Facts: facts[from:to]})
		if errors.Is(err, control.ErrNoRun) {
			return ref.giveToLedger(facts[from:], rep)
		}
		if err != nil {
			return ref.unreached(r, err)
		}
		rep.Done, rep.Silent = append(rep.Done, r.Done...), r.Silent
		for _, k := range r.Kept {
			for _, job := range k.Jobs {
				rep.Keep(k.Why, job)
			}
		}
		from = to
	}
	return nil
}

func (ref *batchRef) giveToLedger(facts []state.Fact, rep *control.Reply) error {
	st, err := ref.openState([]string{ref.real}, "")
	if err != nil {
		return err
	}
	h := st.History()
	open := map[string]bool{}
	for _, at := range h.Attempts() {
		open[at.Start.Key] = true
	}
	for i := range facts {
		f := &facts[i]
		why := runner.Supersedes(h.Of(0, f.Key), f)
		if open[f.Key] {
			why = runner.StillRuns
		}
		if why != "" {
			rep.Keep(why, f.Job)
			continue
		}
		if _, err := st.Append(0, *f); err != nil {
			st.Close()
			return stateFailure(err)
		}
		rep.Done = append(rep.Done, f.Job)
	}
	if err := st.Close(); err != nil {
		return stateFailure(err)
	}
	return nil
}
