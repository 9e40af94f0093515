package cli

import (
	"cmp"
	"maps"
	"os"
	"runtime/debug"
	"slices"
	"time"

	"gpurun/jobspec"
	"gpurun/runner/files"
	"gpurun/runner/results"
	"gpurun/runner/sched"
	"gpurun/state"
	"gpurun/state/disk"
	"gpurun/state/schema"
)

// A measured is a batch with what its jobs have measured.
type measured struct {
	*app
	batch   *jobspec.Batch
	history *state.History
	index   map[string]int // of data.Metrics
	data    results.Data
}

func (m *measured) files() []string {
	return names(len(m.batch.Files), func(i int) string { return m.batch.Files[i].Path })
}

// measured reads what the jobs of some files have measured, from the ledgers and, for what
// is not there, from logs and files.
func (a *app) measured(paths []string) (*measured, error) {
	debug.SetGCPercent(400) // many small values, for a moment
	type ledger struct {
		last map[string]*disk.Success
		runs []state.Fact
		err  error
	}
	ledgers := make([]chan ledger, len(paths))
	for i := range paths { // beside reading the job files
		ledgers[i] = make(chan ledger, 1)
		a.goSafely(func() {
			var l ledger
			l.last, l.runs, l.err = disk.Successes(disk.Folder(paths[i], a.global.StateDir))
			ledgers[i] <- l
		})
	}
	h, _, err := a.readState(paths)
	if err != nil {
		return nil, err
	}
	b, err := a.loadAgain(h.LastRun(0).Params, paths...)
	if err != nil {
		return nil, problems(err)
	}
	m := &measured{app: a, batch: b, history: h, index: map[string]int{}}
	verdicts := a.judge(b, m.history, sched.Options{Sim: true}).verdicts
	last, runs := make([]map[string]*disk.Success, len(paths)), make([][]state.Fact, len(paths))
	for i := range ledgers {
		l := <-ledgers[i]
		if l.err != nil {
			return nil, stateFailure(l.err)
		}
		last[i], runs[i] = l.last, l.runs
	}
	successes := make([]*disk.Success, len(b.Jobs))
	for id := range b.Jobs {
		successes[id] = last[b.Jobs[id].File][b.Jobs[id].Key.String()]
	}
	m.metrics(successes)
	m.data.Jobs = make([]results.Job, len(b.Jobs))
	for id, s := range successes {
		m.job(id, s, verdicts[id])
		if s != nil && (s.Run >= 0 || s.From != "") {
			j, run := &m.data.Jobs[id], state.Fact{Sim: s.Sim, Commit: s.Commit, Dirty: s.Dirty}
			if s.Run >= 0 {
				run = runs[b.Jobs[id].File][s.Run]
			}
			j.Sim, j.Commit = run.Sim != "", run.Commit
			if run.Dirty {
				j.Commit += "+"
			}
		}
	}
	return m, nil
}

func (m *measured) dir(file int) string {
	return disk.Folder(m.batch.Files[file].Real, m.global.StateDir)
}

// metrics finds out which metrics there are: those that the job file names, in its order,
// then those that jobs have said themselves.
func (m *measured) metrics(successes []*disk.Success) {
	add := func(x jobspec.Metric) {
		i, known := m.index[x.Name]
		if !known {
			m.index[x.Name] = len(m.data.Metrics)
			m.data.Metrics = append(m.data.Metrics, results.Metric{Name: x.Name, Goal: x.Goal, Percent: x.Percent})
			return
		}
		own := &m.data.Metrics[i] // of another job of the file
		own.Goal, own.Percent = cmp.Or(own.Goal, x.Goal), own.Percent || x.Percent
	}
	var last []jobspec.Metric
	for id := range m.batch.Jobs {
		list := m.batch.Jobs[id].Metrics()
		if len(list) == 0 || len(last) == len(list) && &last[0] == &list[0] {
			continue // of the same matrix
		}
		for _, x := range list {
			add(x)
		}
		last = list
	}
	said := map[string]bool{}
	for _, s := range successes {
		if s == nil {
			continue
		}
		if path, long := s.Metrics[files.MetricsFile].(string); long {
			s.Metrics, _ = files.Kept(path)
		}
		for name, value := range s.Metrics {
			if nested, is := value.(map[string]any); is {
				flatten(s.Metrics, name, nested)
			}
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

// flatten names the values of an object within the metrics: test.acc.
func flatten(to map[string]any, name string, nested map[string]any) {
	for key, value := range nested {
		if deeper, is := value.(map[string]any); is {
			flatten(to, name+"."+key, deeper)
		} else {
			to[name+"."+key] = value
		}
	}
}

// job sets what a job has measured, by its last success.
func (m *measured) job(id int, s *disk.Success, v verdict) {
	j, to := &m.batch.Jobs[id], &m.data.Jobs[id]
	line, name := j.Entry()
	to.Name, to.Entry, to.Kind = j.Name, results.Entry{File: m.batch.Files[j.File].Path, Line: line, Name: name}, j.Spec.Template
	for _, p := range j.Factors() {
		to.Params = append(to.Params, results.Param{Name: p.Name, Value: p.Text})
	}
	to.State = m.state(j, s, v)
	declared := j.Metrics()
	if len(declared) > 0 {
		to.Named = make([]bool, len(m.data.Metrics))
		for _, x := range declared {
			to.Named[m.index[x.Name]] = true
		}
	}
	if s == nil {
		return
	}
	to.Values = make([]results.Value, len(m.data.Metrics))
	for name, value := range s.Metrics {
		i, known := m.index[name]
		if !known || s.Measured[name] != "" {
			continue
		}
		if x, number := results.Number(value); number {
			to.Values[i] = results.Value{X: x, Is: true}
		}
	}
	late := false
	for _, x := range declared {
		sum := x.Sum
		if sum == "" {
			continue
		}
		number, is := results.Number(s.Metrics[x.Name])
		is = is && s.Measured[x.Name] == sum
		to.Values[m.index[x.Name]] = results.Value{X: number, Is: is}
		late = late || !is
	}
	if late {
		m.read(j, s, to, v.Live)
	}
}

// state says why a job has no value, or none that is up to date; "" if it has one.
func (m *measured) state(j *jobspec.Job, s *disk.Success, v verdict) string {
	switch {
	case v.Live:
		return string(state.Running)
	case !v.Run:
		return ""
	}
	r := m.history.Of(j.File, j.Key.String())
	switch {
	case r == nil || r.Forgotten:
		for _, n := range j.Needs {
			if need := m.history.Of(m.batch.Jobs[n].File, m.batch.Jobs[n].Key.String()); need != nil && need.State.Bad() {
				return string(state.Blocked)
			}
		}
		return string(state.Pending)
	case r.State != state.Succeeded:
		return string(r.State)
	case s == nil, v.Code == schema.PlanOutputMissing, v.Code == schema.PlanLogDeleted: // what it measured is still true
		return ""
	}
	return results.Stale
}

// lateLimit bounds how much of a log is read when somebody asks for it.
const lateLimit = 1 << 30

// read reads what the ledger lacks from the log and the files of a job, if they are still
// those of its last success: the metric was named later, or reading it took too long.
func (m *measured) read(j *jobspec.Job, s *disk.Success, to *results.Job, live bool) {
	start, _ := disk.StartOf(m.dir(j.File), s)
	attempt := jobspec.Runtime{UniID: s.UniID, Attempt: max(1, start.Attempt), GPUs: start.GPUs, Log: start.Log}
	r, err := m.batch.Paths(j, attempt)
	if err != nil {
		return
	}
	newest := m.history.Named(j.File, j.Name)
	over := live || newest != nil && newest.UniID != s.UniID // a later attempt has written them, or does
	var logs []files.LogPart
	path := cmp.Or(start.Log, r.Stdout)
	switch kept, err := os.Stat(path + ".1"); {
	case !over:
		logs = append(logs, files.LogPart{Path: path, From: start.LogFrom, To: s.LogTo})
		if r.Stderr != r.Stdout {
			logs = append(logs, files.LogPart{Path: r.Stderr})
		}
	case err == nil && s.LogTo > 0 && kept.Size() == s.LogTo:
		logs = append(logs, files.LogPart{Path: path + ".1", From: start.LogFrom})
	}
	to.Why = make([]string, len(m.data.Metrics))
	var list []jobspec.Metric
	for _, x := range r.Metrics {
		i := m.index[x.Name]
		fi, err := os.Stat(x.Path)
		switch {
		case x.Sum == "" || to.Values[i].Is:
		case x.Log != nil && len(logs) == 0:
			to.Why[i] = "its log has been overwritten"
		case x.Log == nil && over && err == nil && fi.ModTime().After(s.Time.Add(time.Second)):
			to.Why[i] = "a later attempt has written its file"
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
