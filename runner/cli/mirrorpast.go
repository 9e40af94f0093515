package cli

import (
	"errors"
	"slices"
	"time"

	"gpurun/runner/control"
	"gpurun/runner/results"
	"gpurun/state"
	"gpurun/state/disk"
	"gpurun/state/redact"
	"gpurun/state/schema"
)

// Why an attempt or its log cannot be shown.
var (
	errNotFound    = errors.New("not found")
	errOverwritten = errors.New("overwritten")
)

// retold is every attempt of a mirror's batch, as far as its ledgers have been read.
type retold struct {
	files  []string
	tails  []*disk.Follower
	annals state.Annals

	secrets []string // that attempts began with
}

// A listRow is a mirror's row in the list of batches, and of what it was made.
type listRow struct {
	ref     *batchRef
	row     *schema.BatchRow
	changed time.Time
}

// judged is what the next run of a mirror's batch would do, at some time.
type judged struct {
	at       time.Time
	history  *state.History
	verdicts []verdict
}

// judgeAgain is how long verdicts hold, which depend on what is in the file system.
const judgeAgain = 10 * time.Second

// Row describes the batch for a list. It reads no more than it must: a user may have many.
func (m *mirror) Row() (*schema.BatchRow, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	r, alive, _ := disk.Running(m.file, m.stateDir)
	l, changed := &m.row, disk.Changed(disk.Folder(m.file, m.stateDir))
	same := l.row != nil && alive == l.ref.alive && r.PID == l.ref.runner.PID
	switch {
	case same && (!alive && changed.Equal(l.changed)):
	case same && alive && l.row.Run != nil:
		row, run := *l.row, *l.row.Run
		row.Run, run.Phase = &run, nil
		if rep, err := l.ref.ask(control.Request{Op: control.OpStatus}); err == nil && rep.Snapshot != nil {
			row.Counts, run.Phase = schema.CountsOf(rep.Snapshot.Counts), phaseOf(rep)
		}
		row.Outcome = schema.Known(schema.OutcomeOf(&run, row.Counts))
		l.row = &row
	default:
		ref, err := m.batchOf(m.file)
		if err != nil {
			return nil, err
		}
		row, _ := ref.batchRow()
		row.ID = m.id
		*l = listRow{ref, &row, changed}
		l.ref.history, l.ref.batch = nil, nil // only the row is needed
	}
	return l.row, nil
}

// chronicle returns all attempts so far. It reads on where it stopped the last time.
func (m *mirror) chronicle() *chronicle {
	if p := &m.past; !slices.Equal(p.files, m.ref.files()) {
		*p = retold{files: m.ref.files()}
		for i := range p.files {
			p.tails = append(p.tails, disk.FromStart(m.ref.folder(i)))
		}
	}
	for i, tail := range m.past.tails {
		tail.Next(func(seq int64, f state.Fact) {
			m.past.secrets = append(m.past.secrets, secretsIn(&f)...)
			m.past.annals.Add(i, seq, f)
		})
	}
	c := &chronicle{Annals: m.past.annals.Closed(), after: m.after, secrets: m.past.secrets}
	if len(m.after.ended) > 0 {
		c.Attempts = slices.DeleteFunc(c.Attempts, func(x *state.Exploit) bool { return x.Open != nil && m.after.ended[x.UniID] })
		for r := range m.ref.history.Records() {
			if m.after.ended[r.UniID] {
				c.Attempts = append(c.Attempts, &state.Exploit{Record: *r})
			}
		}
	}
	return c
}

// Attempts lists all attempts.
func (m *mirror) Attempts() ([]schema.AttemptRow, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if err := m.ready(); err != nil {
		return nil, err
	}
	c, now := m.chronicle(), time.Now()
	rows := make([]schema.AttemptRow, len(c.Attempts))
	for i, x := range c.Attempts {
		rows[i] = c.attempt(m.ref, x, now)
	}
	return rows, nil
}

// ready reads the batch if that has not been done.
func (m *mirror) ready() error {
	if m.view == nil {
		return m.load()
	}
	return nil
}

// Runs lists the runs.
func (m *mirror) Runs() (*schema.History, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if err := m.ready(); err != nil {
		return nil, err
	}
	c := m.chronicle()
	doc := &schema.History{Head: schema.At(time.Now()), Batch: m.view.Status.Batch, Runs: c.rows(m.ref, time.Time{})}
	return redact.Document(doc, redact.Hiding(c.secrets)), nil
}

// Because explains a job, and lists its attempts.
func (m *mirror) Because(file, key, name string) (*schema.Because, []schema.AttemptRow, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if err := m.ready(); err != nil {
		return nil, nil, err
	}
	at, known := m.index[place{file, key, name}]
	if !known {
		return nil, nil, &failure{code: exitUsage, text: "no job named " + "\"" + name + "\""}
	}
	st := m.view.Status
	st.Jobs = make([]schema.Job, len(m.view.Jobs))
	for i, j := range m.view.Jobs {
		st.Jobs[i] = *j
	}
	w := explained(&st, m.chronicle(), m.ref.history, m.verdicts())
	j := &st.Jobs[at]
	attempts := []schema.AttemptRow{}
	for _, x := range w.past.Attempts {
		if (x.Key == key || x.Job == name) && m.ref.files()[x.Ledger] == file {
			attempts = append(attempts, w.past.attempt(m.ref, x, time.Now()))
		}
	}
	hide := redact.Hiding(w.past.secrets)
	return redact.Document(&schema.Because{Job: *j, Chain: w.chain(j)}, hide), redact.Document(attempts, hide), nil
}

// verdicts returns what the next run would do with each job of the file.
func (m *mirror) verdicts() []verdict {
	if k := &m.judge; k.history != m.ref.history || time.Since(k.at) > judgeAgain {
		k.at, k.history, k.verdicts = time.Now(), m.ref.history, nil
		if m.readable {
			k.verdicts = m.ref.verdictsOf()
		}
	}
	return m.judge.verdicts
}

// Log finds the log of an attempt.
func (m *mirror) Log(uniID string) (schema.LogPart, error) {
	m.mu.Lock()
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
		return l, &failure{code: exitUsage, text: "this attempt has no log", err: errNotFound}
	}
	moved := 0 // a job that starts afresh moves its old log to LOG.1
	for _, y := range all {
		if y != x && y.Log == l.Path && y.LogFrom == 0 && y.Start.After(x.Start) && x.Open == nil {
			moved++
		}
	}
	switch {
	case moved == 1:
		l.Path += ".1"
	case moved > 1:
		return l, &failure{code: exitUsage, text: "its log has been overwritten by later attempts", err: errOverwritten}
	}
	return l, nil
}

// attempt finds an attempt.
func (m *mirror) attempt(uniID string) (*state.Exploit, []*state.Exploit, error) {
	if err := m.ready(); err != nil {
		return nil, nil, err
	}
	all := m.chronicle().Attempts
	i := slices.IndexFunc(all, func(x *state.Exploit) bool { return x.UniID == uniID })
	if i < 0 || uniID == "" {
		return nil, nil, &failure{code: exitUsage, err: errNotFound, text: "this batch has no attempt " + "\"" + uniID + "\""}
	}
	return all[i], all, nil
}

// Curves finds the points of an attempt's curves.
func (m *mirror) Curves(uniID string) (string, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	x, _, err := m.attempt(uniID)
	if err != nil {
		return "", err
	}
	return disk.CurvePath(m.ref.folder(x.Ledger), x.UniID), nil
}

// Results makes a table of what the jobs have measured.
func (m *mirror) Results(o results.Options) (any, error) {
	m.mu.Lock()
	err := m.ready()
	paths := []string(nil)
	if err == nil {
		paths = m.ref.files()
	}
	m.mu.Unlock()
	if err != nil {
		return nil, err
	}
	got, err := m.measured(paths, "")
	if err != nil {
		return nil, err
	}
	t, err := got.build(o)
	if err != nil {
		return nil, err
	}
	return t.Document(time.Now(), got.files()), nil
}
