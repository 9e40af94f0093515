package batches

import (
	"maps"
	"reflect"
	"slices"
	"sync"
	"time"

	"gpurun/runner/control"
	"gpurun/state"
	"gpurun/state/disk"
	"gpurun/state/host"
	"gpurun/state/schema"
)

// A Mirror is a batch as gpurun web shows it. It follows the ledgers of the batch's run. However
// many clients there are, it queries the run so rarely that the run does not slow down.
type Mirror struct {
	*Reader
	File string // the job file, symlinks resolved

	mu    sync.Mutex
	view  *schema.View
	again bool // everything must be read again
	loaded
	live

	past  readLog
	row   listRow
	judge cachedVerdicts
}

// loaded is a batch that was read completely. Later facts in its ledgers are applied to its
// history.
type loaded struct {
	ref   *Ref
	after openAttempts
	known map[string]host.Stamp // files that determine the jobs
	index map[jobPlace]int      // index of each job in the view
	tails []*disk.Follower      // one for each ledger
	at    time.Time
}

// live holds changes since the batch was loaded.
type live struct {
	partial bool                      // the run has not selected all jobs
	answers []*schema.Job             // the run's answers by index; nil for jobs with a later fact
	metrics map[string]map[string]any // by uni_id
	ask     time.Time                 // earliest time of the next query
}

// A live run spends at most 1/askShare of its time on queries, but one query per askLeast is always
// allowed.
const (
	askShare = 50
	askLeast = time.Second
	// reloadEvery is how often to reload a batch whose attempts have outlived their run, since no
	// ledger records what happens to them.
	reloadEvery = 5 * time.Second
)

// ID identifies the batch by its first file, as the batch's documents do.
func (m *Mirror) ID() string { return batchID(m.File) }

// Look returns the current view of the batch.
func (m *Mirror) Look() (*schema.View, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	touched, all := map[int]bool(nil), m.stale()
	if !all {
		touched, all = m.facts()
	}
	if all {
		err := m.load()
		return m.view, err
	}
	var live *schema.Status
	if m.ref.Alive && time.Now().After(m.ask) {
		live = m.asks()
	}
	if len(touched) > 0 || live != nil {
		m.update(touched, live)
	}
	return m.view, nil
}

func (m *Mirror) stale() bool {
	if m.view == nil || m.again {
		return true
	}
	r, alive, _ := disk.Running(m.File, m.StateDir)
	if alive != m.ref.Alive || r.PID != m.ref.Runner.PID {
		return true
	}
	for path, was := range m.known {
		if host.StampOf(path) != was {
			return true
		}
	}
	return !alive && len(m.after.found) > 0 && time.Since(m.at) > reloadEvery
}

// load reads the whole batch. Unchanged jobs keep their pointers, so that callers can tell that
// they are unchanged.
func (m *Mirror) load() error {
	l := loaded{known: map[string]host.Stamp{}, index: map[jobPlace]int{}}
	ref, err := m.In(m.StateDir, l.note).Open(m.File)
	if err != nil {
		return err
	}
	if m.ref != nil && len(ref.More) == 0 { // files that ran together stay together on the page
		ref.More = m.ref.More
	}
	l.ref, l.tails = ref, make([]*disk.Follower, len(ref.Files()))
	for _, path := range ref.Files() {
		l.note(path)
	}
	for i := range l.tails { // before reading the ledgers: a fact may be read twice, but none is missed
		l.tails[i] = disk.Follow(ref.Folder(i))
	}
	if err := ref.Read(); err != nil {
		return err
	}
	if len(ref.Files()) > len(l.tails) { // follow the ledgers of the files that it needs, too
		m.ref = ref
		return m.load()
	}
	st := ref.Status()
	if st.Batch.ID, l.at = m.ID(), time.Now(); ref.after != nil {
		l.after = *ref.after
	}
	v := &schema.View{Status: *st, Secrets: SecretsOf(ref.Batch)}
	for i, j := range v.Jobs {
		at := placeOf(j)
		if k, known := m.index[at]; known && sameJob(m.view.Jobs[k], j) {
			v.Jobs[i] = m.view.Jobs[k]
		}
		l.index[at] = i
	}
	if m.ref != nil {
		m.ref.History.Close()
	}
	m.view, m.again, m.loaded = v, false, l
	schema.Tried(v.Status.Alike, m.attempts)
	m.live = live{answers: make([]*schema.Job, len(v.Jobs)), metrics: map[string]map[string]any{}, ask: l.at.Add(askLeast)}
	return nil
}

// note records the state of a file before it is read.
func (l *loaded) note(path string) { l.known[path] = host.StampOf(path) }

// facts reads new facts from the ledgers. It returns the jobs that they touch. all means that
// everything must be read again.
func (m *Mirror) facts() (touched map[int]bool, all bool) {
	touched = map[int]bool{}
	for ledger, tail := range m.tails {
		tail.Next(func(_ int64, f state.Fact) {
			at := m.place(ledger, &f)
			m.ref.History.Apply(ledger, f)
			switch f.Kind {
			case state.KindRun, state.KindOver, state.KindForget:
				all = true
			case state.KindEnd:
				if f.Metrics != nil {
					m.metrics[f.UniID] = f.Metrics
				}
			}
			i, known := m.index[at]
			if !known {
				all = all || f.Kind == state.KindStart
				return
			}
			touched[i], m.answers[i] = true, nil
		})
	}
	return touched, all || len(touched) > 0 && !m.ref.Alive
}

func (m *Mirror) place(ledger int, f *state.Fact) jobPlace {
	at := jobPlace{m.ref.Files()[ledger], f.Key, f.Job}
	if a := m.ref.History.Open[f.UniID]; a != nil && at.key == "" {
		at.key, at.name = a.Start.Key, a.Start.Job
	}
	return at
}

// asks queries the run for data that the ledgers lack.
func (m *Mirror) asks() *schema.Status {
	began := time.Now()
	rep, err := m.ref.Ask(control.Request{Op: control.OpStatus, Whole: true})
	m.ask = time.Now().Add(max(askLeast, askShare*time.Since(began)))
	if err != nil {
		return nil
	}
	m.partial = rep.Partial
	return rep.Status
}

// update makes a new view from the jobs with new facts and the run's answers.
func (m *Mirror) update(touched map[int]bool, live *schema.Status) {
	v := &schema.View{Status: m.view.Status, Secrets: m.view.Secrets}
	st, now := &v.Status, time.Now()
	st.Jobs = slices.Clone(st.Jobs)
	st.Head = schema.At(now)
	if live != nil {
		st.Counts, st.ETA, st.GPUs, st.Warnings, st.Live = live.Counts, live.ETA, live.GPUs, live.Warnings, live.Live
		st.Run = liveRun(m.ref, describeRun(m.ref), live)
		left := map[int]bool{} // jobs that only the run had, listed after those of the files
		for i := len(m.ref.Batch.Jobs); i < len(v.Jobs); i++ {
			left[i] = true
		}
		for _, l := range live.Jobs {
			i, known := m.index[placeOf(l)]
			if !known {
				m.again = true // the run has reloaded its files
				continue
			}
			delete(left, i)
			if was := m.answers[i]; was == nil || !sameJob(was, l) {
				m.answers[i], touched[i] = l, true
			}
		}
		m.again = m.again || len(left) > 0
		for i, j := range v.Jobs[:len(m.ref.Batch.Jobs)] {
			if m.answers[i] == nil && !m.partial {
				st.Counts[j.State]++ // the job was added to the file after the run answered
			}
		}
	} else {
		st.Counts = maps.Clone(st.Counts)
	}
	open, changed := openIn(m.ref), false
	for i := range touched {
		old := v.Jobs[i]
		j := m.redescribe(old, open[jobPlace{old.File, old.Key, ""}], m.answers[i], now)
		if sameJob(old, j) {
			continue
		}
		v.Jobs[i], changed = j, true
		if live == nil && old.State != j.State {
			st.Counts[old.State]--
			st.Counts[j.State]++
		}
	}
	if changed {
		st.Alike, _ = schema.Failures(v.Jobs)
		schema.Tried(st.Alike, m.attempts)
	}
	if st.Sum(); changed || live != nil && !sameStatus(&m.view.Status, st) {
		m.view = v
	}
}

// redescribe returns a new description of a job, from the ledger and the run's answer.
func (m *Mirror) redescribe(old *schema.Job, open *state.Attempt, live *schema.Job, now time.Time) *schema.Job {
	j := new(*old)
	j.State, j.Since, j.Cause, j.Wait, j.Attempts, j.Attempt, j.Metrics = state.Pending, nil, nil, nil, 0, nil, nil
	h := m.ref.History
	r := h.Of(fileOf(m.ref.Batch, j.File), j.Key)
	if r != nil && r.State != "" {
		j.State = r.State
	}
	record(j, m.ref, r, open, openAttempts{}, now)
	if a := j.Attempt; a != nil && a.Metrics == nil && a.UniID != nil && m.metrics[*a.UniID] != nil {
		if a.Metrics = m.metrics[*a.UniID]; a.State == state.Succeeded {
			j.Metrics = a.Metrics
		}
	}
	if live != nil {
		answer(j, live)
	}
	derive(j)
	return j
}

// sameJob reports whether two descriptions of a job are equal, apart from elapsed time.
func sameJob(a, b *schema.Job) bool {
	if a.State != b.State || a.Attempts != b.Attempts || (a.Attempt == nil) != (b.Attempt == nil) {
		return false
	}
	x, y := *a, *b
	if x.Attempt != nil {
		p, q := *x.Attempt, *y.Attempt
		p.Seconds, q.Seconds = nil, nil
		x.Attempt, y.Attempt = &p, &q
	}
	return reflect.DeepEqual(x, y)
}

// sameStatus reports whether two statuses are equal, apart from their jobs and headers.
func sameStatus(a, b *schema.Status) bool {
	x, y := *a, *b
	x.Head, y.Head = schema.Head{}, schema.Head{}
	x.Jobs, y.Jobs = nil, nil
	return reflect.DeepEqual(x, y)
}
