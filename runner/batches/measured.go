package batches

import (
	"cmp"
	"maps"
	"os"
	"runtime"
	"slices"
	"strings"
	"sync"
	"time"

	"gpurun/jobspec"
	"gpurun/runner/files"
	"gpurun/runner/results"
	"gpurun/runner/sched"
	"gpurun/state"
	"gpurun/state/disk"
	"gpurun/state/host"
	"gpurun/state/schema"
)

// A measurement is a batch with the metrics of its jobs.
type measurement struct {
	*Ref
	index map[string]int // index in data.Metrics
	Data  results.Data
	note  string // the -p values that are shown, if there are any

	successes []*disk.Success // last success of each job; nil for none
}

// Secrets returns the secrets of the jobs, whatever their -p values.
func (m *measurement) Secrets() []string { return SecretsOf(m.Batch) }

// Measure reads the metrics of the jobs in some files, from the ledgers or else from logs and
// files. It uses the -p values of the last run, and those of other runs with successes of their
// own. If which names a run, it uses only that run's values.
func (r *Reader) Measure(paths []string, which string) (*measurement, error) {
	type ledger struct {
		last  map[string]*disk.Success
		given []map[string]string
		err   error
	}
	ledgers, read := make([]ledger, len(paths)), sync.WaitGroup{}
	for i := range paths { // read the ledgers while the job files are read
		read.Add(1)
		r.Start(func() {
			defer read.Done()
			l := &ledgers[i]
			l.last, l.given, l.err = disk.Successes(disk.Folder(paths[i], r.StateDir))
		})
	}
	ref, err := r.Open(paths[0])
	if err != nil {
		return nil, err
	}
	ref.More, ref.Which = paths[1:], which
	if err := ref.recall(); err != nil {
		return nil, err
	}
	if len(ref.Files()) > len(paths) { // the jobs need those of other files
		return r.Measure(ref.Files(), which)
	}
	b, err := r.Reload(ref.run.Params, paths...)
	if err != nil {
		return nil, err
	}
	judged := r.Judge(b, ref.History, sched.Options{Sim: true})
	m := &measurement{Ref: judged.Ref, index: map[string]int{}}
	verdicts := judged.Verdicts
	last, given := make([]map[string]*disk.Success, len(paths)), []map[string]string{b.Params}
	read.Wait()
	for i, l := range ledgers {
		if l.err != nil {
			return nil, StateFailure(l.err)
		}
		last[i] = l.last
		for _, params := range l.given {
			same := func(p map[string]string) bool { return maps.Equal(p, params) }
			if which == "" && !slices.ContainsFunc(given, same) {
				given = append(given, params)
			}
		}
	}
	for _, f := range judged.Ref.Settle().ended { // the ledger lacks these ends, since the run was killed
		if f.State == state.Succeeded {
			run := m.History.LastRun(f.ledger)
			last[f.ledger][f.Key] = &disk.Success{
				UniID: f.UniID, Ended: f.Time, Metrics: state.Flat(f.Metrics), Measured: f.Measured, Run: &run,
			}
		}
	}
	verdicts = append(verdicts, m.others(given, paths)...)
	for id := range b.Jobs {
		m.successes = append(m.successes, last[b.Jobs[id].File][b.Jobs[id].Key.String()])
	}
	m.metrics()
	m.Data.Jobs = make([]results.Job, len(b.Jobs))
	n := len(m.Data.Metrics)
	r.divide(len(b.Jobs), func(from, to int) {
		values := make([]results.Value, (to-from)*n)
		for id, s := range m.successes[from:to] {
			m.job(from+id, s, values[id*n:(id+1)*n:(id+1)*n])
		}
	})
	for id, s := range m.successes {
		j, to := &b.Jobs[id], &m.Data.Jobs[id]
		to.State = m.state(j, s, verdicts[id])
		if s == nil {
			if r := m.History.Of(j.File, j.Key.String()); r != nil && r.State == state.Pruned {
				had := m.History.MetricsOf(r)
				to.Sim = r.Simulated()
				for _, x := range m.Data.Metrics {
					value, is := results.Number(had[x.Name])
					to.Partial = append(to.Partial, results.Value{X: value, Is: is})
				}
			}
			continue
		}
		if slices.ContainsFunc(j.Metrics(), func(x jobspec.Metric) bool { return x.Sum != "" && !to.Values[m.index[x.Name]].Is }) {
			m.read(j, s, to, verdicts[id].Code == schema.PlanRunning)
		}
		to.Sim = s.Run.Sim != "" && j.Spec.Request.Max > 0
		if to.Commit = s.Run.Commit; s.Run.Dirty {
			to.Commit += "+"
		}
	}
	return m, nil
}

// others adds jobs that have run with other -p values, and returns their verdicts. The batch was
// read with given[0].
func (m *measurement) others(given []map[string]string, paths []string) (verdicts []sched.Verdict) {
	known := map[jobPlace]bool{}
	at := func(j *jobspec.Job) jobPlace { return jobPlace{paths[j.File], j.Key.String(), ""} }
	for i := 0; len(given) > 1 && i < len(m.Batch.Jobs); i++ {
		known[at(&m.Batch.Jobs[i])] = true
	}
	var words []string
	for i, params := range given {
		if i > 0 {
			b, err := m.Reload(params, paths...)
			if err != nil || !maps.Equal(b.Params, params) {
				continue // the files no longer have such jobs
			}
			judged, before := m.Judge(b, m.History, sched.Options{Sim: true}).Verdicts, len(verdicts)
			for id, j := range b.Jobs {
				if r := m.History.Of(j.File, j.Key.String()); !known[at(&j)] && (judged[id].Code == schema.PlanRunning || r != nil && !r.Forgotten) {
					known[at(&j)], verdicts = true, append(verdicts, judged[id])
					m.Batch.Jobs = append(m.Batch.Jobs, j)
				}
			}
			if len(verdicts) == before {
				continue
			}
		}
		words = append(words, cmp.Or(strings.TrimSpace(ParamFlags(params)), "the job file's defaults"))
	}
	if len(words) > 1 || len(given[0]) > 0 {
		m.note = "values: " + strings.Join(words, "; ")
	}
	return verdicts
}

// Table makes the table, and adds the -p values to its notes.
func (m *measurement) Table(o results.Options) (*results.Table, error) {
	t, err := results.Build(m.Data, o)
	if r, ok := err.(*results.Refusal); ok {
		return nil, &Failure{Code: ExitUsage, Text: r.Text, Hint: r.Hint, Err: err}
	}
	if err != nil {
		return nil, err
	}
	for _, f := range m.Batch.Files {
		t.Files = append(t.Files, f.Path)
	}
	if m.note != "" {
		t.Notes = append(t.Notes, m.note)
	}
	return t, nil
}

// divide calls f on parts of a list of length n, on all cores.
func (r *Reader) divide(n int, f func(from, to int)) {
	var all sync.WaitGroup
	for cores, i := runtime.GOMAXPROCS(0), 0; i < cores; i++ {
		all.Add(1)
		r.Start(func() {
			defer all.Done()
			f(n*i/cores, n*(i+1)/cores)
		})
	}
	all.Wait()
}

// metrics lists the metrics: those in the job file, in its order, then those that jobs reported
// themselves.
func (m *measurement) metrics() {
	add := func(x jobspec.Metric) {
		i, known := m.index[x.Name]
		if !known {
			m.index[x.Name] = len(m.Data.Metrics)
			m.Data.Metrics = append(m.Data.Metrics, results.Metric{Name: x.Name, Goal: x.Goal, Percent: x.Percent})
			return
		}
		own := &m.Data.Metrics[i] // may come from another entry of the file
		own.Goal, own.Percent = cmp.Or(own.Goal, x.Goal), own.Percent || x.Percent
	}
	for id := range m.Batch.Jobs {
		for _, x := range m.Batch.Jobs[id].Metrics() {
			add(x)
		}
	}
	said := map[string]bool{}
	for _, s := range m.successes {
		if s == nil {
			continue
		}
		if path, is := s.Metrics[files.MetricsFile].(string); is {
			all, _ := files.Kept(path)
			s.Metrics = state.Flat(all)
		}
		for name, value := range s.Metrics {
			if said[name] || s.Measured[name] != "" || name == "step" {
				continue
			}
			if _, number := results.Number(value); number {
				said[name] = true
			}
		}
	}
	for _, name := range slices.Sorted(maps.Keys(said)) {
		add(jobspec.Metric{Name: name})
	}
}

// job sets a job's identity and its metrics from its last success.
func (m *measurement) job(id int, s *disk.Success, values []results.Value) {
	j, to := &m.Batch.Jobs[id], &m.Data.Jobs[id]
	line, name := j.Entry()
	to.Name, to.Entry, to.Kind = j.Name, results.Entry{File: m.Batch.Files[j.File].Path, Line: line, Name: name}, j.Spec.Template
	factors := j.Factors()
	to.Params = make([]results.Param, len(factors))
	for i, p := range factors {
		to.Params[i] = results.Param{Name: p.Name, Value: p.Text}
	}
	rules := map[string]string{} // of metrics that are read from logs and files
	if declared := j.Metrics(); len(declared) > 0 {
		to.Named = make([]bool, len(m.Data.Metrics))
		for _, x := range declared {
			to.Named[m.index[x.Name]], rules[x.Name] = true, x.Sum
		}
	}
	if s == nil {
		return
	}
	to.Values = values
	for name, value := range s.Metrics {
		if i, known := m.index[name]; known && s.Measured[name] == rules[name] {
			x, number := results.Number(value)
			to.Values[i] = results.Value{X: x, Is: number}
		}
	}
}

// state returns why a job's values are missing or outdated, or "".
func (m *measurement) state(j *jobspec.Job, s *disk.Success, v sched.Verdict) string {
	switch {
	case v.Code == schema.PlanRunning:
		return string(state.Running)
	case v.Code == schema.PlanPruned:
		return string(state.Pruned)
	case !v.Run && m.redone(j, s):
		return results.Stale
	case !v.Run:
		return ""
	}
	r := m.History.Of(j.File, j.Key.String())
	switch {
	case r == nil || r.Forgotten:
		for _, n := range j.Needs {
			if need := m.History.Of(m.Batch.Jobs[n].File, m.Batch.Jobs[n].Key.String()); need != nil && need.State.Bad() {
				return string(state.Blocked)
			}
		}
		return string(state.Pending)
	case r.State != state.Succeeded:
		return string(r.State)
	case s == nil, v.Code == schema.PlanOutputMissing, v.Code == schema.PlanLogDeleted: // the values of s are still valid
		return ""
	}
	return results.Stale
}

// redone reports whether gpurun done has confirmed a success that was forgotten, or whose outputs
// were rewritten later. The values of such a success may not match the outputs.
func (m *measurement) redone(j *jobspec.Job, s *disk.Success) bool {
	if s == nil || !s.Confirmed { // History would read a line of the ledger for each job
		return false
	}
	if r := m.History.Of(j.File, j.Key.String()); r == nil || r.By == "" || r.UniID == s.UniID {
		return false
	}
	r, err := m.Batch.Paths(j, jobspec.Runtime{UniID: s.UniID, Attempt: 1})
	return s.Doubted || err == nil && slices.ContainsFunc(r.Outputs, func(path string) bool {
		fi, err := os.Stat(path)
		return err == nil && fi.Mode().IsRegular() && fi.ModTime().After(s.Ended)
	})
}

// lateLimit is how much of a log is read on demand.
const lateLimit = 1 << 30

// traces returns the start and end of a job's success, its paths, and the parts of its logs from
// this success. over means that a later attempt has overwritten the logs, or is doing so.
func (m *measurement) traces(j *jobspec.Job, s *disk.Success, live bool) (start, end state.Fact, r jobspec.Rendered, logs []files.LogPart, over bool) {
	start, end = s.Lines(m.Folder(j.File))
	start.UniID = s.UniID
	r, err := m.Batch.Paths(j, files.Runtime(&start))
	if err != nil {
		return start, end, r, nil, true
	}
	newest := m.newer(j, s, start)
	over = live || newest != nil
	path := cmp.Or(start.Log, r.Stdout)
	if start.Job == j.Name && !host.Exists(path) {
		path = r.Stdout // the work dir has been moved, so the recorded path is outdated
	}
	name := path + ".1"
	if newest != nil && newest.By != "" {
		name = path // gpurun done writes no log, so it has not replaced this one
	}
	switch kept, err := os.Stat(name); {
	case !over:
		logs = append(logs, files.LogPart{Path: path, From: start.LogFrom, To: end.LogTo})
		if r.Stderr != r.Stdout {
			logs = append(logs, files.LogPart{Path: cmp.Or(start.Stderr, r.Stderr)})
		}
	case err == nil && end.LogTo > 0 && kept.Size() == end.LogTo:
		logs = append(logs, files.LogPart{Path: name, From: start.LogFrom})
	}
	return start, end, r, logs, over
}

// newer returns an attempt or mark that came after a job's success and may have replaced its log,
// or nil. Logs are named after jobs, and the job may have had another name.
func (m *measurement) newer(j *jobspec.Job, s *disk.Success, start state.Fact) *state.Record {
	for _, name := range []string{j.Name, start.Job} {
		if r := m.History.Named(j.File, name); r != nil && r.UniID != s.UniID {
			return r
		}
	}
	for _, at := range m.History.Open {
		if at.Ledger == j.File && at.Start.Job == start.Job {
			return &state.Record{Fact: at.Start}
		}
	}
	return nil
}

// read searches the logs and files of a job's last success for the metrics that the ledger lacks:
// those added to the job file later, and those not read in time.
func (m *measurement) read(j *jobspec.Job, s *disk.Success, to *results.Job, live bool) {
	_, end, r, logs, over := m.traces(j, s, live)
	to.Why = make([]string, len(m.Data.Metrics))
	var list []jobspec.Metric
	for _, x := range r.Metrics {
		i := m.index[x.Name]
		fi, err := os.Stat(x.Path)
		switch {
		case x.Sum == "" || to.Values[i].Is:
		case x.Log != nil && len(logs) == 0:
			to.Why[i] = "its log was overwritten"
		case x.Log != nil && logs[0].Path == "":
			to.Why[i] = "gpurun done recorded it without a log"
		case x.Log == nil && over && err == nil && fi.ModTime().After(end.Time.Add(time.Second)):
			to.Why[i] = "a later attempt overwrote its file"
		default:
			list = append(list, x)
		}
	}
	found := files.Measure(list, logs, files.Limits{Bytes: lateLimit})
	for _, x := range list {
		i := m.index[x.Name]
		number, is := results.Number(found.Values[x.Name])
		to.Values[i], to.Why[i] = results.Value{X: number, Is: is}, found.Missing[x.Name]
	}
}
