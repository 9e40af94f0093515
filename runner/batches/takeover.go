package batches

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	"al.essio.dev/pkg/shellescape"

	"gpurun/jobspec"
	"gpurun/runner"
	"gpurun/runner/control"
	"gpurun/state"
	"gpurun/state/disk"
	"gpurun/state/host"
)

// maxTaken is the maximum number of bytes of facts in one request to a run.
const maxTaken = 256 << 10

// successesOf returns the batch of ref, whose jobs may take over successes, and the successes of
// old by key. No run of old may be alive. successesOf refuses while attempts of old's last run are
// still running.
func (ref *Ref) successesOf(old *Ref) (*jobspec.Batch, map[string]state.Fact, error) {
	h, _, err := ref.ReadHistory([]string{old.Real})
	if err != nil {
		return nil, nil, err
	}
	here, _, err := ref.ReadHistory([]string{ref.Real})
	if err != nil {
		return nil, nil, err
	}
	given := here.LastRun(0).Params
	if here.LastRun(0).Kind == "" {
		given = h.LastRun(0).Params
	}
	batch, err := ref.Reload(given, ref.File)
	if err != nil {
		return nil, nil, err
	}
	m := settle(batch, h, old.Folder, false)
	if open := h.Attempts(); len(open) > 0 {
		file, jobs := shellescape.Quote(old.File), []string(nil)
		for _, at := range open {
			jobs = append(jobs, at.Start.Job)
		}
		return nil, nil, &Failure{Code: ExitFailed, Text: fmt.Sprintf("%s: %s may still be running: nothing was copied, because a copied job could run twice",
			old.File, strings.Join(jobs, ", ")), Hint: "run gpurun wait --file " + file + " or gpurun stop --file " + file + ", then try again"}
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
			if was, confirmed := last[f.Key]; f.By != "" && f.From == "" && confirmed { // gpurun done confirmed an earlier success
				was.By, was.Time, was.Confirms = f.By, f.Time, f.Confirms
				last[f.Key] = was
				return
			}
			delete(last, cmp.Or(f.Key, starts[f.UniID].Key))
			if f.State == state.Succeeded && f.From == "" {
				f = state.TakenOver(old.File, runs[f.UniID], starts[f.UniID], f)
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
	disk.FromStart(old.Dir).Next(take)
	for _, end := range m.ended {
		take(0, end.Fact)
	}
	return batch, last, nil
}

// moved describes successes recorded under the name of a job file that no longer exists, probably
// because it was renamed. Their jobs have no recorded end under the file's current name.
type moved struct {
	from, to string
	list     bool // from is the name of a list from standard input, which never was a file
	Jobs     int
	hours    float64
}

// Moved finds the results that jobs of a batch have only under a former name of its file. If there
// are several such names, it chooses the one with the most results.
func (r *Reader) Moved(b *jobspec.Batch, h *state.History, runs func(id int) bool) (most moved) {
	fresh := func(id int) bool { return runs(id) && h.Of(0, b.Jobs[id].Key.String()) == nil }
	if len(b.Files) != 1 || len(h.Open) > 0 || !slices.ContainsFunc(b.Jobs, func(j jobspec.Job) bool { return fresh(j.ID) }) {
		return most
	}
	for _, old := range r.formerNames(b.Files[0].Real) {
		past := r.gone(b, old)
		if past == nil {
			continue
		}
		m := moved{from: Shown(old), to: b.Files[0].Path, list: r.fromInput(old)}
		for id := range b.Jobs {
			if r := past.Of(0, b.Jobs[id].Key.String()); r != nil && r.State == state.Succeeded && !r.Forgotten && fresh(id) {
				m.Jobs++
				m.hours += r.Seconds / 3600 * float64(len(r.GPUs))
			}
		}
		if m.Jobs > most.Jobs {
			most = m
		}
	}
	return most
}

// formerNames returns possible former names of a job file: the batches in its folder and, if their
// state is elsewhere, those with its name in other folders, since its folder may have been moved.
func (r *Reader) formerNames(file string) (names []string) {
	for _, b := range disk.Batches(filepath.Dir(file), r.StateDir) {
		names = append(names, b.File)
	}
	if r.StateDir == "" {
		return names
	}
	for _, u := range disk.Remembered() {
		if filepath.Base(u.File) == filepath.Base(file) && u.Dir == disk.Folder(u.File, r.StateDir) && !slices.Contains(names, u.File) {
			names = append(names, u.File)
		}
	}
	return names
}

// gone returns the history of a job file that is gone, with the ends of attempts that have ended
// since its last run; nil if the file still exists or its ledger cannot be read.
func (r *Reader) gone(b *jobspec.Batch, old string) *state.History {
	if host.Exists(old) {
		return nil
	}
	past, _, err := r.ReadHistory([]string{old})
	if err != nil {
		return nil
	}
	settle(b, past, func(int) string { return disk.Folder(old, r.StateDir) }, false)
	return past
}

// fromInput reports whether a batch is a list of commands from standard input. Such a batch exists
// although there is no file of that name.
func (r *Reader) fromInput(name string) bool {
	l, ok := r.Lines(name)
	return ok && l.Input != nil
}

// NoneRunning returns an error if a job that would run may still be running under a former name of
// its file, because it would run twice. Jobs on the host abandon do not count.
func (r *Reader) NoneRunning(b *jobspec.Batch, runs func(id int) bool, abandon string) error {
	for i, f := range b.Files {
		for _, old := range r.formerNames(f.Real) {
			if !disk.HasAttempts(disk.Folder(old, r.StateDir)) || r.fromInput(old) {
				continue
			}
			past := r.gone(b, old)
			if past == nil {
				continue
			}
			run := past.LastRun(0)
			if abandon != "" && run.Host == abandon {
				continue
			}
			open, n := openKeys(past), 0
			for id := range b.Jobs {
				if j := &b.Jobs[id]; j.File == i && open[j.Key.String()] && runs(id) {
					n++
				}
			}
			if n == 0 {
				continue
			}
			from := Shown(old)
			file := shellescape.Quote(from)
			e := &Failure{
				Code: ExitState, Text: fmt.Sprintf("%s may still be running for %s, which no longer exists", state.Count(n, "job"), from),
				Hint: "run gpurun wait --file " + file + " or gpurun stop --file " + file + "; then " + moved{from: from, to: f.Path}.Fix(),
			}
			if !disk.OnThisHost(run) {
				e.Text = fmt.Sprintf("%s may still be running on %s for %s, which no longer exists", state.Count(n, "job"), run.Host, from)
				e.Hint = "run gpurun there, or gpurun run --abandon " + run.Host + " if the machine is gone"
			}
			return e
		}
	}
	return nil
}

func openKeys(h *state.History) map[string]bool {
	open := map[string]bool{}
	for _, at := range h.Attempts() {
		open[at.Start.Key] = true
	}
	return open
}

// record passes facts to the batch's run or, without one, writes them to its ledger.
func (ref *Ref) record(facts []state.Fact, rep *control.Reply) error {
	for from := 0; from < len(facts); {
		size, to := 0, from
		for ; to < len(facts) && (to == from || size < maxTaken); to++ {
			text, err := json.Marshal(facts[to])
			if err != nil {
				return err
			}
			size += len(text)
		}
		r, err := ref.Ask(control.Request{Op: control.OpDone, File: ref.Real, Facts: facts[from:to]})
		if errors.Is(err, control.ErrNoRun) {
			return ref.recordDead(facts[from:], rep)
		}
		if err != nil {
			return ref.Unreached(r, err)
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

func (ref *Ref) recordDead(facts []state.Fact, rep *control.Reply) error {
	st, err := ref.Lock([]string{ref.Real}, "")
	if err != nil {
		return err
	}
	h := st.History()
	open := openKeys(h)
	var taken []state.Fact
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
		taken = append(taken, *f)
	}
	return write(st, taken, rep)
}

// TakeOver records the successes of another batch in this batch's ledger.
func (ref *Ref) TakeOver(old *Ref, jobs []string) (rep control.Reply, err error) {
	switch {
	case old.Real == ref.Real:
		return rep, &Failure{Code: ExitUsage, Text: "--from " + old.File + " names the batch that would get the successes", Hint: "pass the new file: gpurun done --from " + shellescape.Quote(old.File) + " --file NEW.yaml"}
	case old.unsure != nil:
		return rep, StateFailure(old.unsure)
	case old.Alive:
		return rep, &Failure{Code: ExitFailed, Text: fmt.Sprintf("%s is running (process %d): nothing was copied, because its running jobs could run twice", old.File, old.Runner.PID),
			Hint: "gpurun wait --file " + shellescape.Quote(old.File) + " waits for it; then try again"}
	}
	batch, last, err := ref.successesOf(old)
	if err != nil {
		return rep, err
	}
	rep, facts, err := chosenSuccesses(batch, last, old, jobs)
	if err != nil {
		return rep, err
	}
	if err := ref.record(facts, &rep); err != nil {
		return rep, err
	}
	for _, f := range facts {
		disk.CopyCurve(old.Dir, ref.Dir, f.UniID)
	}
	return rep, nil
}

// chosenSuccesses returns the successes of the selected jobs, under their current names.
func chosenSuccesses(b *jobspec.Batch, last map[string]state.Fact, old *Ref, jobs []string) (rep control.Reply, facts []state.Fact, err error) {
	in := slices.Repeat([]bool{true}, len(b.Jobs))
	if len(jobs) > 0 {
		if in, err = Match(b, jobs); err != nil {
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
			rep.Keep("no success in "+old.File, j.Name)
		}
	}
	if len(facts) == 0 {
		return rep, nil, &Failure{Code: ExitFailed, Text: fmt.Sprintf("%s: nothing was copied, because none of these jobs succeeded in %s", b.Files[0].Path, old.File),
			Hint: "gpurun matches jobs by commands, parameters, environment and work dir"}
	}
	return rep, facts, nil
}

// Words describes the successes under the old name.
func (m moved) Words() string {
	gone := ", which no longer exists,"
	if m.list {
		gone = ""
	}
	return fmt.Sprintf("%s already succeeded in %s%s and would run again (%.1f GPU hours)", state.Count(m.Jobs, "job"), m.from, gone, m.hours)
}

// Fix returns a hint with the command that keeps these successes.
func (m moved) Fix() string {
	return "if you renamed the " + map[bool]string{false: "file", true: "list"}[m.list] + ", keep its results: gpurun done --from " + shellescape.Quote(m.from) + " --file " + shellescape.Quote(m.to)
}
