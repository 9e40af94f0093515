package runner

import (
	"slices"

	"gpurun/runner/sched"
	"gpurun/state"
)

// backlog tracks facts that could not be written to the ledgers.
type backlog struct {
	unsaved    []sched.Record  // ends that are still to be written
	unrecorded map[string]bool // starts that could not be written, by uni_id
}

// record writes facts to the ledger of their file and passes them on. If a start cannot be written,
// its attempt is never launched and its end is not written either. If an end cannot be written, it
// stays in the attempt's own record, and gpurun keeps trying to write it until the run is over.
func (l *loop) record(some ...sched.Record) {
	b := &l.book
	if i := slices.IndexFunc(some, func(a sched.Record) bool { return b.unrecorded[a.Fact.UniID] }); i >= 0 {
		l.record(some[:i]...)
		delete(b.unrecorded, some[i].Fact.UniID)
		l.tell(some[i])
		l.record(some[i+1:]...)
		return
	}
	done := 0
	if len(b.unsaved) == 0 && len(some) > 0 {
		done = l.append(some)
	}
	for i, a := range some {
		starts := a.Fact.Kind == state.KindStart
		if i >= done && starts {
			b.unrecorded[a.Fact.UniID] = true
			continue
		}
		if i >= done {
			b.unsaved = append(b.unsaved, a)
		}
		l.tell(a)
	}
}

// tell passes a fact to the summary and the sinks.
func (l *loop) tell(a sched.Record) {
	l.out.fact(l, a)
	for _, s := range l.Sinks {
		s.Fact(a.Job, a.Fact)
	}
}

// append writes facts to one ledger and returns the number of facts written. After the first
// failure, the core starts no more jobs.
func (l *loop) append(some []sched.Record) int {
	facts := make([]state.Fact, len(some))
	for i, a := range some {
		facts[i] = a.Fact
	}
	n, err := l.Ledger.Append(some[0].File, facts...)
	for _, f := range facts[:n] {
		if f.Kind == state.KindEnd && f.UniID != "" {
			l.Ledger.RemoveAttempt(some[0].File, f.UniID)
		}
	}
	if err != nil {
		f := facts[min(n, len(facts)-1)]
		l.Log.Error().Err(err).Str("kind", string(f.Kind)).Str("job", f.Job).Msg("ledger")
		l.stateFailed(err)
	}
	return n
}

// save retries the ends that could not be written, in order.
func (l *loop) save() {
	for len(l.book.unsaved) > 0 && l.append(l.book.unsaved[:1]) == 1 {
		l.book.unsaved = l.book.unsaved[1:]
	}
}
