package batches

import (
	"crypto/sha256"
	"encoding/hex"
	"maps"
	"os"
	"slices"
	"time"

	"gpurun/jobspec"
	"gpurun/runner"
	"gpurun/runner/sched"
	"gpurun/state"
	"gpurun/state/disk"
	"gpurun/state/host"
	"gpurun/state/schema"
)

// Document describes a batch for programs, from the job files, the ledgers, and the live run's
// answer, which may be nil. partial means that the answer leaves out some jobs, because the run has
// not selected them. m describes the attempts that the ledgers leave open.
func (ref *Ref) Document(live *schema.Status, partial bool, m openAttempts) *schema.Status {
	now := time.Now()
	b, h := ref.Batch, ref.History
	st := &schema.Status{Head: schema.At(now), Warnings: []schema.Problem{}}
	if live != nil {
		*st = *live
	}
	st.Batch, st.Run = ref.Describe(), describeRun(ref)
	if ref.Alive && !ref.past || live != nil {
		st.Run = liveRun(ref, st.Run, live)
	}
	rest, answered := []*schema.Job(nil), map[jobPlace]*schema.Job{} // from the run
	if live != nil {
		for _, l := range live.Jobs {
			answered[placeOf(l)] = l
		}
	}
	phases, counts, open := sched.Phases(b, h), map[state.Phase]int{}, openIn(ref)
	listed := map[*state.Attempt]bool{}
	st.Jobs = make([]*schema.Job, 0, len(b.Jobs))
	for id := range b.Jobs {
		j := describe(b, id)
		st.Jobs = append(st.Jobs, j)
		r, o := h.Of(b.Jobs[id].File, j.Key), open[jobPlace{j.File, j.Key, ""}]
		j.State, listed[o] = phases[id], true
		record(j, ref, r, o, m, now)
		counts[j.State]++
		if phases[id] == state.Blocked || phases[id] == state.Pruned && (r == nil || r.State != state.Pruned) {
			j.Cause = sched.BlockedBy(b, phases, id)
		}
		if l := answered[placeOf(j)]; l != nil {
			answer(j, l)
			delete(answered, placeOf(j))
		} else if live != nil && !partial {
			st.Counts[j.State]++ // the job was added to the file after the run answered
		}
		derive(j)
	}
	if live == nil {
		st.Counts = schema.CountsOf(counts)
		for _, o := range h.Attempts() {
			if !listed[o] {
				rest = append(rest, &schema.Job{File: b.Files[o.Ledger].Real, Name: o.Start.Job, Key: o.Start.Key})
			}
		}
	} else {
		for _, l := range live.Jobs {
			if answered[placeOf(l)] != nil {
				rest = append(rest, l)
			}
		}
	}
	for _, l := range rest { // known to the run or the ledgers, but no longer in the files
		j := &schema.Job{
			File: l.File, Name: l.Name, Key: l.Key, State: state.Running, Params: map[string]string{}, Tags: []string{},
			Needs: []string{}, Commands: []string{},
		}
		record(j, ref, h.Of(fileOf(b, l.File), l.Key), open[jobPlace{l.File, l.Key, ""}], m, now)
		answer(j, l)
		derive(j)
		st.Jobs = append(st.Jobs, j)
	}
	st.Alike, _ = schema.Failures(st.Jobs)
	st.Sum()
	return st
}

// A jobPlace identifies a job in a batch.
type jobPlace struct{ file, key, name string }

// openIn returns the attempts that the ledgers leave open, by file and key, because several files
// may have the same job.
func openIn(ref *Ref) map[jobPlace]*state.Attempt {
	open := map[jobPlace]*state.Attempt{}
	for _, o := range ref.History.Attempts() {
		open[jobPlace{ref.Batch.Files[o.Ledger].Real, o.Start.Key, ""}] = o
	}
	return open
}

func placeOf(j *schema.Job) jobPlace { return jobPlace{j.File, j.Key, j.Name} }

// fileOf returns the index of a job file in a batch, or -1.
func fileOf(b *jobspec.Batch, real string) int {
	return slices.IndexFunc(b.Files, func(f jobspec.File) bool { return f.Real == real })
}

// describe returns a job as the job file describes it.
func describe(b *jobspec.Batch, id int) *schema.Job {
	j := &b.Jobs[id]
	d := &schema.Job{
		File: b.Files[j.File].Real, Line: schema.Known(j.Line()), Name: j.Name, Key: j.Key.String(), Params: runner.Params(j),
		Tags: []string{}, Queue: schema.Known(b.QueueName(j.Queue)), Needs: b.NeedNames(j), Commands: []string{},
	}
	if s := j.Spec; s != nil && j.Line() > 0 {
		d.Tags, d.Priority = schema.List(s.Tags), s.Priority
		d.GPUs = &schema.Range{Min: s.Request.Min, Max: s.Request.Max}
		d.Memory = schema.Known(s.Request.Memory)
		commands, _ := b.Planned(j)
		d.Commands = schema.List(commands)
	}
	return d
}

// record adds a job's record from the ledger: the last end of its key, or the open attempt.
func record(j *schema.Job, ref *Ref, r *state.Record, open *state.Attempt, m openAttempts, now time.Time) {
	h := ref.History
	j.Plan = nil
	if r != nil && r.Forgotten {
		j.Plan = &schema.Plan{Run: true, Code: schema.PlanForgotten, Details: []string{"forgotten"}}
	}
	if r != nil {
		j.Attempt, j.Attempts = schema.Ended(r), r.Attempt
		if last := h.LastRun(r.Ledger); r.Engine == "" && !last.Time.After(r.Start) {
			j.Attempt.Host = schema.Known(last.Host)
		}
		j.Attempt.Metrics = h.MetricsOf(r)
		if end, ended := m.ended[r.UniID]; ended {
			j.Attempt.Meanwhile, j.Attempt.Metrics = true, end.Metrics
		}
		if r.State == state.Succeeded {
			j.Metrics = j.Attempt.Metrics
		}
	}
	if open == nil {
		return
	}
	j.Attempt, j.Attempts = schema.Open(open, now), open.Start.Attempt
	if open.Start.Engine == "" {
		j.Attempt.Host = schema.Known(h.LastRun(open.Ledger).Host)
	}
	f := m.found[open.Start.UniID]
	if f.PID != 0 {
		j.Attempt.PID = schema.Known(f.PID)
	}
	if f.Began {
		j.Attempt.State = state.Running
	}
	if j.State = j.Attempt.State; !ref.Alive {
		j.Attempt.Note = schema.Known(m.words(open))
	}
}

// answer adds the live run's data about a job.
func answer(j, l *schema.Job) {
	if l.State == "" {
		return // the run has not selected it
	}
	j.State, j.Cause, j.Wait = l.State, l.Cause, l.Wait
	if l.Attempt != nil {
		host := (*string)(nil)
		if j.Attempt != nil {
			host = j.Attempt.Host
		}
		if j.Attempt, j.Attempts = l.Attempt, l.Attempt.N; j.Attempt.Host == nil {
			j.Attempt.Host = host
		}
	}
}

// derive sets the fields whose values follow from others.
func derive(j *schema.Job) {
	a := j.Attempt
	if a == nil {
		return
	}
	switch j.State {
	case state.Running:
		j.Since = a.Started
	case state.Queued:
		j.Since = a.Submitted
	case state.Failed, state.Timeout, state.OOM, state.Stalled, state.Pruned, state.Cancelled, state.Interrupted, state.Lost:
		j.Since, j.Cause = a.Ended, a.Cause
	case state.Succeeded, state.UpToDate, state.Waiting:
		j.Since = a.Ended
	}
}

// Describe describes the batch.
func (ref *Ref) Describe() schema.Batch {
	b := ref.Batch
	d := schema.Batch{StateDir: ref.Dir, Params: b.Params, Files: []schema.File{}, Host: disk.Host().Host, User: host.UserName(os.Getuid())}
	for _, f := range b.Files {
		d.Files = append(d.Files, schema.File{Path: f.Real, Dialect: f.Dialect})
	}
	if len(b.Files) > 0 {
		d.ID, d.WorkDir = batchID(b.Files[0].Real), b.Files[0].WorkDir
	}
	return d
}

// batchID returns the ID of the batch with this first job file on this host. The other files do not
// matter, since they belong to the batch only while they run together.
func batchID(file string) string {
	sum := sha256.Sum256([]byte(file + "\x00" + host.MachineID()))
	return hex.EncodeToString(sum[:8])
}

// describeRun describes the run that is shown, from the ledger alone; nil if there is none.
func describeRun(ref *Ref) *schema.Run {
	f, over := ref.run, ref.over
	if f.Kind == "" {
		return nil
	}
	r := &schema.Run{ID: schema.Known(f.RunID), Started: schema.Time(f.Time), Settings: f.Settings, Params: f.Params, Sim: schema.Known(f.Sim), Git: schema.GitOf(&f), Snapshot: schema.Known(f.Snapshot)}
	if over.Kind != "" {
		r.Ended, r.Exit, r.GPUSeconds = schema.Time(over.Time), over.ExitCode, schema.Known(over.GPUSeconds)
	} else if k, ok := readSummary(ref.Dir); ok && !ref.past { // a full disk may have kept the run's end out of the ledger
		r.Exit = &k.code
	}
	return r
}

// liveRun completes the description of a live run.
func liveRun(ref *Ref, last *schema.Run, live *schema.Status) *schema.Run {
	if last == nil {
		last = &schema.Run{}
	}
	last.Alive, last.PID, last.Ended, last.Exit = true, schema.Known(ref.Runner.PID), nil, nil
	if !ref.Runner.Since.IsZero() && (last.Started == nil || last.Started.Before(ref.Runner.Since.Add(-time.Minute))) {
		last.Started = schema.Time(ref.Runner.Since)
	}
	if live != nil && live.Run != nil {
		last.Phase, last.Snapshot = live.Run.Phase, live.Run.Snapshot
		if n := len(live.Run.Settings); n > 0 {
			s := make(map[string]string, len(last.Settings)+n) // copy, since last belongs to the ledger
			maps.Copy(s, last.Settings)
			maps.Copy(s, live.Run.Settings)
			last.Settings = s
		}
	}
	return last
}
