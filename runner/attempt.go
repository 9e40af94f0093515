package runner

import (
	"cmp"
	"sync"
	"time"

	"gpurun/jobspec"
	"gpurun/runner/engine"
	"gpurun/runner/files"
	"gpurun/runner/sched"
	"gpurun/state"
)

// start launches a prepared attempt after the ledger has recorded its start.
func (l *loop) start(a sched.Launch) {
	if l.book.unrecorded[a.UniID] {
		l.discard(a.UniID)
		l.later(sched.Ended{UniID: a.UniID, End: state.End{ExitCode: -1, At: l.Now().Wall, Lost: true, Void: true, Err: "cannot record its start"}})
		return
	}
	at := l.attempts.live[a.UniID]
	at.launch.Key, at.launch.Needs, at.launch.Rank = a.Key, a.Needs, a.Rank
	l.starts = append(l.starts, at.launch)
}

func (l *loop) launch() {
	if len(l.asks) > 0 {
		l.Engine.Adopt(l.asks...)
		l.asks = nil
	}
	if len(l.starts) > 0 {
		l.Engine.Launch(l.starts...)
		l.starts = nil
	}
}

// discard releases the resources of a prepared attempt that will not start.
func (l *loop) discard(uniID string) {
	at := l.attempts.live[uniID]
	if at == nil {
		return
	}
	withdraw(l.Engine.Claims, uniID, at.launch.Grant)
	l.forget(at)
	l.Ledger.RemoveAttempt(at.file, uniID)
}

// forget releases the resources of an attempt that has ended or will not start.
func (l *loop) forget(at *attempt) {
	if l.attempts.live[at.launch.UniID] != at {
		return
	}
	delete(l.attempts.live, at.launch.UniID)
	l.attempts.ports.give(at.port)
	l.use(at.code, -1)
}

// adopt asks the engine about an attempt of an earlier run.
func (l *loop) adopt(job int, a state.Attempt) {
	at := adopted(l.Batch, job, &a, l.Ledger.AttemptDir(a.Ledger, a.Start.UniID))
	at.curve = l.Ledger.CurvePath(a.Ledger, a.Start.UniID)
	at.watched = l.Ledger.Watched
	at.code = l.copyAt(a.Start.Snapshot)
	l.use(at.code, 1)
	l.attempts.live[at.launch.UniID] = at
	l.out.starts[a.Start.UniID] = a.Start
	ask := engine.Attempt{Identity: at.launch.Identity, Started: a.Start.Time}
	if a.Running != nil {
		ask.PID, ask.PIDStart = a.Running.PID, a.Running.PIDStart
	}
	l.asks = append(l.asks, ask)
}

// adopted rebuilds an earlier run's attempt from the ledger and the job file.
func adopted(b *jobspec.Batch, id int, a *state.Attempt, dir string) *attempt {
	at := &attempt{job: id, file: a.Ledger, out: logOf(a.Start.Log), snapshot: a.Start.Snapshot, launch: engine.Launch{Identity: engine.Identity{
		UniID: a.Start.UniID, Job: a.Start.Job, Dir: dir, Grace: 10 * time.Second,
		Grant: a.Start.Grant(),
	}}}
	if a.Start.LogFrom > 0 {
		at.out[0].From = a.Start.LogFrom
	}
	if id < 0 || b == nil {
		return at
	}
	at.launch.Grace = b.Jobs[id].Spec.Grace
	at.launch.Grant.Background, at.launch.Grant.CPUs, at.launch.Grant.RAM = b.Settings.Background, b.Jobs[id].Spec.CPUs, b.Jobs[id].Spec.Memory
	at.launch.Grant.Share, at.launch.Grant.Slots = b.Jobs[id].Spec.Request.Share, b.Jobs[id].Spec.Request.Slots
	s := &a.Start
	was := state.Record{Fact: *s, Start: s.Time}
	at.evidence = func() sched.Evidence { return files.EvidenceOf(b, &b.Jobs[id], &was) }
	if r, err := b.Render(&b.Jobs[id], files.Runtime(&a.Start)); err == nil {
		at.outputs, at.metrics, at.reports, at.launch.WorkDir = r.Outputs, r.Metrics, b.Jobs[id].PruneMetric(), r.WorkDir
		if r.Stderr != r.Stdout { // start facts of earlier versions lack Stderr
			at.out = append(at.out, logOf(cmp.Or(a.Start.Stderr, r.Stderr))...)
		}
	}
	return at
}

// JobFinder returns a function that finds the job of an earlier run's attempt by file and key, or
// returns -1. The key alone is not enough, because two files may have identical jobs. b may be nil.
func JobFinder(b *jobspec.Batch) func(*state.Attempt) int {
	type job struct {
		file int
		key  string
	}
	ids := sync.OnceValue(func() map[job]int {
		m := map[job]int{}
		for id := range b.Jobs {
			m[job{b.Jobs[id].File, b.Jobs[id].Key.String()}] = id
		}
		return m
	})
	return func(a *state.Attempt) int {
		if b != nil {
			if id, ok := ids()[job{a.Ledger, a.Start.Key}]; ok {
				return id
			}
		}
		return -1
	}
}

// Meanwhile returns the end that the next run would record for an attempt without a runner. id is
// the attempt's job in the batch, or -1; dir is the attempt's folder; e is the end that the engine
// found, and watched is as in Ledger.
func Meanwhile(b *jobspec.Batch, id int, a *state.Attempt, dir string, e state.End, watched func(time.Time) time.Time, now sched.Now) state.Fact {
	at := adopted(b, id, a, dir)
	at.watched = watched
	at.reports = nil // reading its points is left to the next run
	return sched.EndFact(a, judge(at, e, ""), now)
}
