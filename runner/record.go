package runner

import (
	"gpurun/runner/sched"
	"gpurun/state"
)

// book is what is on its way to the ledger.
type book struct {
	unwritten []sched.Record  // facts for the next write
	urgent    bool            // some of them must be written now
	unsaved   []sched.Record  // ends that could not be written yet
	dropped   map[string]bool // starts that could not be written: do not launch
	unstarted map[string]bool // dropped starts whose end is still to come
}

// record queues a fact for the next write, which takes several at once. The write
// happens before any action that must follow a fact, and when the loop runs out of
// work. A running fact may wait for others.
func (l *loop) record(a sched.Record) {
	b := &l.book
	if b.unstarted[a.Fact.UniID] { // the ledger has no start for this end
		delete(b.unstarted, a.Fact.UniID)
		l.write()
		l.tell(a)
		return
	}
	b.unwritten = append(b.unwritten, a)
	b.urgent = b.urgent || a.Fact.Kind != state.KindRunning
	if at := l.attempts.live[a.Fact.UniID]; at != nil && a.Fact.Kind == state.KindStart {
		at.launch.Key, at.launch.Needs = a.Fact.Key, a.Fact.Needs
	}
}

// mayWait reports whether an action may be done before the preceding facts are
// written.
func mayWait(a sched.Action) bool {
	switch a.(type) {
	case sched.Record, sched.Prepare, sched.Wake, sched.Read:
		return true
	}
	return false
}

// write appends the facts to their ledgers and passes them on. A start that cannot be
// written is never launched, and its end is not written either. An end that cannot be
// written stays in the attempt's own record and is retried until the run is over.
func (l *loop) write() {
	left := l.book.unwritten
	l.book.unwritten, l.book.urgent = nil, false
	for len(left) > 0 {
		n := 1
		for n < len(left) && left[n].File == left[0].File {
			n++
		}
		done := 0
		if len(l.book.unsaved) == 0 {
			done = l.append(left[:n])
		}
		for i, a := range left[:n] {
			switch {
			case i < done:
			case a.Fact.Kind == state.KindStart:
				l.book.dropped[a.Fact.UniID] = true
				continue
			default:
				l.book.unsaved = append(l.book.unsaved, a)
			}
			l.tell(a)
		}
		left = left[n:]
	}
}

// tell passes a fact to the summary and the sinks.
func (l *loop) tell(a sched.Record) {
	l.out.fact(l, a)
	for _, s := range l.Sinks {
		s.Fact(a.Job, a.Fact)
	}
}

// append writes facts to one ledger and returns how many were written. The first
// failure makes the core stop starting jobs.
func (l *loop) append(some []sched.Record) int {
	facts := make([]state.Fact, len(some))
	for i, a := range some {
		facts[i] = a.Fact
	}
	n, err := l.Ledger.AppendAll(some[0].File, facts...)
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

// save retries, in order, the ends that could not be written.
func (l *loop) save() {
	for len(l.book.unsaved) > 0 && l.append(l.book.unsaved[:1]) == 1 {
		l.book.unsaved = l.book.unsaved[1:]
	}
}
