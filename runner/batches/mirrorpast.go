package batches

import (
	"errors"
	"slices"
	"time"

	"gpurun/runner/results"
	"gpurun/runner/sched"
	"gpurun/state"
	"gpurun/state/disk"
	"gpurun/state/redact"
	"gpurun/state/schema"
)

// Why an attempt or its log cannot be shown.
var (
	ErrNotFound    = errors.New("not found")
	ErrOverwritten = errors.New("overwritten")
)

// A listRow is a mirror's row in the list of batches, with the data from which it was made.
type listRow struct {
	ref     *Ref
	row     *schema.BatchRow
	changed time.Time
}

// cachedVerdicts holds the verdicts of a mirror's batch, and the time when they were made.
type cachedVerdicts struct {
	at       time.Time
	history  *state.History
	verdicts []sched.Verdict
}

// verdictsExpire is how long verdicts stay valid. They depend on files that may change without
// notice.
const verdictsExpire = 10 * time.Second

// Row describes the batch for a list. It reads as little as possible, because a user may have many
// batches.
func (m *Mirror) Row() (*schema.BatchRow, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	r, alive, _ := disk.Running(m.File, m.StateDir)
	l, changed := &m.row, disk.Changed(disk.Folder(m.File, m.StateDir))
	same := l.row != nil && alive == l.ref.Alive && r.PID == l.ref.Runner.PID
	switch {
	case same && (!alive && changed.Equal(l.changed)):
	case same && alive && l.row.Run != nil:
		row, run := *l.row, *l.row.Run
		run.Phase = nil
		st := l.ref.brief(&run)
		if st.Counts == nil {
			st.Counts = row.Counts
		}
		sum(&row, st)
		l.row = &row
	default:
		ref, err := m.Open(m.File)
		if err != nil {
			return nil, err
		}
		row := ref.Row()
		row.ID = m.ID()
		*l = listRow{ref, &row, changed}
		if ref.History != nil {
			ref.History.Close()
		}
		l.ref.History, l.ref.Batch = nil, nil // only the row is needed
	}
	return l.row, nil
}

func (m *Mirror) runLog() *runLog {
	p := m.past.read(m.ref, m.after)
	p.waits = func(x *state.AttemptRecord) bool {
		i, known := m.index[p.placeOf(x)]
		if !known || m.view.Jobs[i].State != state.Waiting {
			return false
		}
		a := m.view.Jobs[i].Attempt
		return a != nil && a.UniID != nil && *a.UniID == x.UniID // the view may be older than x
	}
	return p
}

// Attempts lists all attempts so far.
func (m *Mirror) Attempts() ([]schema.AttemptRow, error) {
	if err := m.lock(); err != nil {
		return nil, err
	}
	defer m.mu.Unlock()
	return m.attempts(), nil
}

func (m *Mirror) attempts() []schema.AttemptRow {
	c, now := m.runLog(), time.Now()
	rows := make([]schema.AttemptRow, len(c.Attempts))
	for i, x := range c.Attempts {
		rows[i] = c.Attempt(x, now)
	}
	return rows
}

// lock locks the mirror and loads the batch, unless it is loaded.
func (m *Mirror) lock() error {
	m.mu.Lock()
	if m.view != nil {
		return nil
	}
	err := m.load()
	if err != nil {
		m.mu.Unlock()
	}
	return err
}

// Runs lists the runs.
func (m *Mirror) Runs() (*schema.History, error) {
	if err := m.lock(); err != nil {
		return nil, err
	}
	defer m.mu.Unlock()
	c := m.runLog()
	doc := &schema.History{Head: schema.At(time.Now()), Batch: m.view.Status.Batch, Runs: c.Rows(time.Time{})}
	return redact.Document(doc, redact.Hiding(c.Secrets)), nil
}

// GPUUsage returns how the GPU time was used.
func (m *Mirror) GPUUsage() (*schema.BatchUsage, error) {
	if err := m.lock(); err != nil {
		return nil, err
	}
	defer m.mu.Unlock()
	return m.runLog().Usage(m.ref.Readings(), time.Now()), nil
}

// Job explains a job and lists its attempts.
func (m *Mirror) Job(file, key, name string) (*schema.JobDetail, error) {
	if err := m.lock(); err != nil {
		return nil, err
	}
	defer m.mu.Unlock()
	at, known := m.index[jobPlace{file, key, name}]
	if !known {
		return nil, &Failure{Code: ExitUsage, Text: "no job named " + "\"" + name + "\""}
	}
	st := m.view.Status
	st.Jobs = slices.Clone(st.Jobs)
	for i, j := range st.Jobs {
		st.Jobs[i] = new(*j) // explained adds the plan
	}
	w := explained(&st, m.runLog(), m.verdicts())
	j := st.Jobs[at]
	attempts := []schema.AttemptRow{}
	for _, x := range w.Log.Attempts {
		if (x.Key == key || x.Job == name) && m.ref.Files()[x.Ledger] == file {
			attempts = append(attempts, w.Log.Attempt(x, time.Now()))
		}
	}
	doc := &schema.JobDetail{Head: schema.At(time.Now()), Batch: st.Batch, Job: schema.Because{Job: *j, Chain: w.Chain(j)}, Attempts: attempts}
	return redact.Document(doc, redact.Hiding(w.Log.Secrets)), nil
}

// verdicts returns what the next run would do with each job of the file.
func (m *Mirror) verdicts() []sched.Verdict {
	if k := &m.judge; k.history != m.ref.History || time.Since(k.at) > verdictsExpire {
		k.at, k.history, k.verdicts = time.Now(), m.ref.History, m.ref.verdicts()
	}
	return m.judge.verdicts
}

// Log finds the log of an attempt.
func (m *Mirror) Log(uniID string) (schema.LogPart, error) {
	if err := m.lock(); err != nil {
		return schema.LogPart{}, err
	}
	defer m.mu.Unlock()
	x, all, err := m.attempt(uniID)
	if err != nil {
		return schema.LogPart{}, err
	}
	l := schema.LogPart{Path: x.Log, From: x.LogFrom, To: -1, Over: x.Open == nil}
	if x.Open == nil && x.LogTo > 0 {
		l.To = x.LogTo
	}
	if l.Path == "" {
		return l, &Failure{Code: ExitUsage, Text: "this attempt has no log", Err: ErrNotFound}
	}
	l.Path, err = logPath(x, all)
	return l, err
}

// logPath returns where the log of an attempt is. It needs all attempts, because a later one may
// have moved the log to LOG.1.
func logPath(x *state.AttemptRecord, all []*state.AttemptRecord) (string, error) {
	moved := 0
	for _, y := range all {
		if y != x && y.Log == x.Log && y.LogFrom == 0 && y.Start.After(x.Start) && x.Open == nil {
			moved++
		}
	}
	switch moved {
	case 0:
		return x.Log, nil
	case 1:
		return x.Log + ".1", nil
	}
	return x.Log, &Failure{Code: ExitUsage, Text: "its log was overwritten by later attempts", Err: ErrOverwritten}
}

// LogPaths returns a function that finds the log of an attempt. known is false if the ledgers lack
// the start of the attempt.
func (p *runLog) LogPaths() func(uniID string) (path string, err error, known bool) {
	byID, byLog := map[string]*state.AttemptRecord{}, map[string][]*state.AttemptRecord{}
	for _, x := range p.Attempts {
		byID[x.UniID], byLog[x.Log] = x, append(byLog[x.Log], x)
	}
	return func(uniID string) (path string, err error, known bool) {
		x := byID[uniID]
		if x == nil {
			return "", nil, false
		}
		path, err = logPath(x, byLog[x.Log])
		return path, err, true
	}
}

func (m *Mirror) attempt(uniID string) (*state.AttemptRecord, []*state.AttemptRecord, error) {
	all := m.runLog().Attempts
	i := slices.IndexFunc(all, func(x *state.AttemptRecord) bool { return x.UniID == uniID })
	if i < 0 || uniID == "" {
		return nil, nil, &Failure{Code: ExitUsage, Err: ErrNotFound, Text: "this batch has no attempt " + "\"" + uniID + "\""}
	}
	return all[i], all, nil
}

// Curves reads the curves of the metrics that an attempt reported.
func (m *Mirror) Curves(uniID string) ([]schema.Curve, error) {
	if err := m.lock(); err != nil {
		return nil, err
	}
	defer m.mu.Unlock()
	x, _, err := m.attempt(uniID)
	if err != nil {
		return nil, err
	}
	return m.ref.Curves(x), nil
}

// Results makes a table of the jobs' metrics.
func (m *Mirror) Results(o results.Options) (*results.Table, error) {
	if err := m.lock(); err != nil {
		return nil, err
	}
	paths := m.ref.Files()
	m.mu.Unlock()
	got, err := m.Measure(paths, "")
	if err != nil {
		return nil, err
	}
	return got.Table(o)
}
