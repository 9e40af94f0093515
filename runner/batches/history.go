package batches

import (
	"slices"
	"sync"
	"time"

	"gpurun/runner/control"
	"gpurun/state"
	"gpurun/state/disk"
	"gpurun/state/redact"
	"gpurun/state/schema"
)

// A runLog holds the runs and attempts from a batch's ledgers, and the outcome of the attempts that
// the ledgers leave open.
type runLog struct {
	state.RunHistory
	ref     *Ref
	after   openAttempts
	Secrets []string                          // of the current jobs, and of all jobs that have started
	waits   func(x *state.AttemptRecord) bool // whether the job waits for a retry after x, its last attempt in the live run
}

// A readLog is the part of a batch's ledgers that has been read.
type readLog struct {
	files   []string
	tails   []*disk.Follower
	runs    state.RunHistory
	secrets []string
}

// read continues where the previous call stopped.
func (l *readLog) read(ref *Ref, after openAttempts) *runLog {
	if !slices.Equal(l.files, ref.Files()) {
		*l = readLog{files: ref.Files(), secrets: SecretsOf(ref.Batch)}
		for i := range l.files {
			l.tails = append(l.tails, disk.FromStart(ref.Folder(i)))
		}
	}
	for i, tail := range l.tails {
		tail.Next(func(seq int64, f state.Fact) {
			l.secrets = append(l.secrets, SecretsIn(&f)...)
			l.runs.Add(i, seq, f)
		})
	}
	p := &runLog{ref: ref, RunHistory: l.runs.Clone(), after: after, Secrets: l.secrets}
	for uniID, end := range after.ended {
		if p.IsOpen(uniID) { // a run may have recorded the end since
			p.Add(end.ledger, 0, end.Fact)
		}
	}
	p.Close()
	return p
}

// RunLog reads the ledgers of a batch from the start.
func (ref *Ref) RunLog() *runLog {
	ref.unread()
	p := new(readLog).read(ref, ref.Settle())
	waiting := sync.OnceValue(ref.waiting)
	p.waits = func(x *state.AttemptRecord) bool { return waiting()[p.placeOf(x)] }
	return p
}

func (p *runLog) placeOf(x *state.AttemptRecord) jobPlace {
	return jobPlace{p.ref.Files()[x.Ledger], x.Key, x.Job}
}

// waiting returns the jobs that wait for a retry, according to the live run.
func (ref *Ref) waiting() map[jobPlace]bool {
	rep, err := ref.Ask(control.Request{Op: control.OpStatus, Whole: true})
	if err != nil {
		return nil
	}
	all := map[jobPlace]bool{}
	for _, j := range rep.Status.Jobs {
		if j.State == state.Waiting {
			all[placeOf(j)] = true
		}
	}
	return all
}

// SecretsIn returns the secrets recorded in the start of an attempt.
func SecretsIn(start *state.Fact) []string {
	return append(redact.Secrets(start.Params), redact.Secrets(start.Traits)...)
}

// Rows summarizes the runs that were active after the given time.
func (p *runLog) Rows(since time.Time) []schema.RunRow {
	rows := []schema.RunRow{}
	for i, e := range p.Runs {
		alive := p.ref.Alive && i == len(p.Runs)-1
		if !alive && e.Last.Before(since) {
			continue
		}
		rows = append(rows, p.row(i+1, e, alive))
	}
	return rows
}

func (p *runLog) row(n int, e *state.PastRun, alive bool) schema.RunRow {
	row := schema.RunRow{
		N: n, ID: schema.Known(e.Run.RunID), Params: e.Run.Params,
		Started: e.Run.Time.UTC(), LastSeen: e.Last.UTC(), Host: e.Run.Host, Git: schema.GitOf(&e.Run), Sim: schema.Known(e.Run.Sim),
		Driver: schema.Known(e.Run.Driver), GPUs: schema.Known(e.Run.Usable), Attempts: e.Starts, Retries: e.Retries, Lost: []schema.Loss{},
	}
	switch {
	case alive:
		row.Why = "running"
	case e.Over.Kind != "":
		row.Ended, row.Exit, row.Why = schema.Time(e.Over.Time), e.Over.ExitCode, e.Over.Why
	default:
		row.Why = "killed, or the machine went down: no end recorded"
	}
	type job struct {
		ledger int
		key    string
	}
	last := map[job]*state.AttemptRecord{}
	var order []job
	var mine []*state.AttemptRecord
	for _, x := range p.Attempts { // open ones come last
		if x.Recorded != e && (x.Open == nil || x.Began != e) {
			continue
		}
		mine = append(mine, x)
		at := job{x.Ledger, x.Key}
		if last[at] == nil {
			order = append(order, at)
		}
		last[at] = x
	}
	counts := map[state.Phase]int{}
	var failed []*schema.Job
	for _, at := range order {
		x := last[at]
		if x.Open != nil {
			counts[state.Running]++
			continue
		}
		now := x.State
		if alive && now.Bad() && p.waits(x) {
			now = state.Waiting
		}
		if counts[now]++; now.Bad() {
			j := schema.EndedJob(x.Job, x.State, &x.Record)
			if failed = append(failed, j); j.Cause != nil {
				j.Cause.Text += x.Failure().Ending()
			}
		}
	}
	row.Counts, row.GPUSeconds = schema.CountsOf(counts), state.GPUSeconds(mine)
	row.Alike, _ = schema.Failures(failed)
	row.Alike = row.Alike[:min(len(row.Alike), maxAlikeRows)]
	rest := e.Last.Sub(e.Run.Time).Seconds()*float64(e.Run.Usable) - row.GPUSeconds
	for _, l := range e.Lost {
		row.Lost = append(row.Lost, schema.Loss{Code: l.Code, User: schema.Known(l.User), Seconds: l.Seconds})
		rest -= l.Seconds
	}
	if e.Run.Usable > 0 {
		rest = max(0, rest)
		row.Idle = &rest
	}
	return row
}

// maxAlikeRows is how many failure groups of a run are listed.
const maxAlikeRows = 10

// UntilTime formats t for display next to from, without the date if both have the same.
func UntilTime(from, t time.Time) string {
	if from.Local().Format(time.DateOnly) == t.Local().Format(time.DateOnly) {
		return t.Local().Format(time.TimeOnly)
	}
	return t.Local().Format(time.DateTime)
}

// Attempt describes one attempt.
func (p *runLog) Attempt(x *state.AttemptRecord, now time.Time) schema.AttemptRow {
	row := schema.AttemptRow{File: p.ref.Files()[x.Ledger], Job: x.Job, Key: x.Key}
	if x.Open != nil {
		row.Attempt = *schema.Open(x.Open, now)
		if f := p.after.found[x.UniID]; f.PID != 0 {
			row.PID = schema.Known(f.PID)
		}
	} else {
		row.Attempt = *schema.Ended(&x.Record)
		row.Meanwhile = p.after.meanwhile(x.UniID)
	}
	if x.Began != nil && x.Engine == "" {
		row.Host = schema.Known(x.Began.Run.Host)
	}
	return row
}
