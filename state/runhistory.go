package state

import (
	"cmp"
	"maps"
	"slices"
	"time"
)

// RunHistory holds every run and every attempt in some ledgers, whereas a History holds only the
// last end of each job. Facts of a ledger must be added in order.
type RunHistory struct {
	Runs     []*PastRun
	Attempts []*AttemptRecord // in the order of their ends; open ones last

	open   map[string]*AttemptRecord
	latest map[int]*PastRun // by ledger
}

// A PastRun is one run, across the ledgers of all its files.
type PastRun struct {
	Run, Over Fact      // Over has no Kind if the run was killed or is alive
	Last      time.Time // when its last fact was written
	Lost      []Loss
	Starts    int // number of attempts that it started
	Retries   int // number of starts of jobs that it had started before

	tried map[ledgerKey]bool
	in    map[int]bool // ledgers that contain it
}

// An AttemptRecord is one attempt, with the run that started it and the run that recorded its end.
type AttemptRecord struct {
	Record
	Open            *Attempt // set until the attempt ends
	Began, Recorded *PastRun // nil if unknown
	Stalled         []int64  // when it stalled and resumed, in turn, in nanoseconds since 1970
}

// together is the maximum time between the run facts that one run writes to the ledgers of its
// files.
const together = time.Second

// Add adds a fact from the ledger of a batch's file, given by index.
func (a *RunHistory) Add(ledger int, seq int64, f Fact) {
	if a.open == nil {
		a.open, a.latest = map[string]*AttemptRecord{}, map[int]*PastRun{}
	}
	if f.Kind == KindRun {
		a.run(ledger, f)
		for _, x := range a.open { // a new run restarts stall detection for attempts that it reattaches to
			x.stall(&f)
		}
	}
	e := a.latest[ledger]
	if e != nil {
		if f.Time.After(e.Last) {
			e.Last = f.Time
		}
		for _, l := range f.Lost {
			e.Lost = l.AddTo(e.Lost)
		}
	}
	switch f.Kind {
	case KindOver:
		if e != nil {
			e.Over = f
		}
	case KindStart:
		a.open[f.UniID] = &AttemptRecord{Open: &Attempt{Start: f, Seq: seq, Ledger: ledger}, Began: e}
		if e != nil {
			at := ledgerKey{ledger, f.Key}
			if e.Starts++; e.tried[at] {
				e.Retries++
			}
			e.tried[at] = true
		}
	case KindEnd:
		a.end(ledger, seq, f, e)
	default:
		if x := a.open[f.UniID]; x != nil {
			x.Open.apply(&f)
			x.stall(&f)
		}
	}
}

// run adds a run, unless another ledger already has it.
func (a *RunHistory) run(ledger int, f Fact) {
	var same *PastRun
	apart := func(e *PastRun) time.Duration { return f.Time.Sub(e.Run.Time).Abs() }
	for _, e := range a.Runs {
		if !e.in[ledger] && apart(e) < together && e.Run.BootID == f.BootID && (same == nil || apart(e) < apart(same)) {
			same = e
		}
	}
	if same == nil {
		same = &PastRun{Run: f, Last: f.Time, tried: map[ledgerKey]bool{}, in: map[int]bool{}}
		a.Runs = append(a.Runs, same)
	}
	same.in[ledger], a.latest[ledger] = true, same
}

// end records the end of an attempt, or of a job that never started. It skips jobs that a user
// marked as done, and successes copied from another ledger.
func (a *RunHistory) end(ledger int, seq int64, f Fact, e *PastRun) {
	if f.By != "" || f.From != "" {
		return
	}
	x := a.open[f.UniID]
	if x == nil {
		x = &AttemptRecord{Began: e}
	}
	delete(a.open, f.UniID)
	x.Record = *NewRecord(ledger, seq, f, x.Open)
	x.Open, x.Recorded, x.Metrics = nil, e, f.Metrics
	if e != nil { // an attempt of an earlier run counts for the run that recorded its end
		e.tried[ledgerKey{ledger, x.Key}] = true
	}
	a.Attempts = append(a.Attempts, x)
}

// stall records when the attempt stalled and when the stall ended.
func (x *AttemptRecord) stall(f *Fact) {
	begins, is := f.Kind == KindStalled, len(x.Stalled)%2 == 1
	if (begins || f.Kind == KindResumed || f.Kind == KindRun) && begins != is {
		x.Stalled = append(slices.Clip(x.Stalled), f.Time.UnixNano())
	}
}

// Clone returns a copy of the history so far. Facts added to the original later do not affect it.
func (a *RunHistory) Clone() RunHistory {
	c := RunHistory{Runs: slices.Clone(a.Runs), Attempts: slices.Clone(a.Attempts), open: map[string]*AttemptRecord{}, latest: a.latest}
	for id, x := range a.open {
		open := *x
		c.open[id] = &open
	}
	return c
}

// IsOpen reports whether an attempt has started and has not ended, as far as the added facts show.
func (a *RunHistory) IsOpen(uniID string) bool { return a.open[uniID] != nil }

// Close appends the attempts that are still open, in the order of their starts. Before that, it
// sorts the runs by their starts and the other attempts by their ends, because ledgers were added
// one after another.
func (a *RunHistory) Close() {
	slices.SortStableFunc(a.Attempts, func(x, y *AttemptRecord) int { return x.Time.Compare(y.Time) })
	slices.SortStableFunc(a.Runs, func(x, y *PastRun) int { return x.Run.Time.Compare(y.Run.Time) })
	for _, x := range a.open {
		x.Record = *NewRecord(x.Open.Ledger, 0, Fact{UniID: x.Open.Start.UniID}, x.Open)
	}
	open := slices.SortedFunc(maps.Values(a.open), func(x, y *AttemptRecord) int {
		return cmp.Or(x.Start.Compare(y.Start), cmp.Compare(x.UniID, y.UniID))
	})
	a.Attempts = append(a.Attempts, open...)
}

// GPUSeconds returns the GPU time that attempts held, in seconds. It leaves out open attempts.
func GPUSeconds(attempts []*AttemptRecord) float64 {
	t := GPUTime{}
	for _, x := range attempts {
		if x.Open == nil && !x.Start.IsZero() {
			t.AddAttempt(&Fact{Time: x.Start, GPUUUIDs: x.GPUUUIDs}, &x.Fact)
		}
	}
	return t.Total().Seconds()
}
