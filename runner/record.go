package runner

import (
	"gpurun/runner/sched"
	"gpurun/state"
)

// record queues a fact for the next write, which takes several at once. The write
// happens before any action that must follow a fact, and when the loop runs out of
// work. A running fact may wait for others.
func (l *loop) record(a sched.Record) {
	l.unwritten = append(l.unwritten, a)
	l.urgent = l.urgent || a.Fact.Kind != state.KindRunning
	if at := l.live[a.Fact.UniID]; at != nil && a.Fact.Kind == state.KindStart {
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
	for left := l.unwritten; len(left) > 0; {
		if l.unstarted[left[0].Fact.UniID] {
			delete(l.unstarted, left[0].Fact.UniID)
			l.tell(left[0])
			left = left[1:]
			continue
		}
		n := 1
		for n < len(left) && left[n].File == left[0].File && !l.unstarted[left[n].Fact.UniID] {
			n++
		}
		some := left[:n]
		left = left[n:]
		done := 0
		if len(l.unsaved) == 0 {
			done = l.append(some)
		}
		for i, a := range some {
			if i >= done && a.Fact.Kind == state.KindStart {
				l.dropped[a.Fact.UniID] = true
				continue
			}
			if i >= done {
				l.unsaved = append(l.unsaved, a)
			}
			l.tell(a)
		}
	}
	l.unwritten, l.urgent = l.unwritten[:0], false
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
	l.facts = l.facts[:0]
	for _, a := range some {
		l.facts = append(l.facts, a.Fact)
	}
	n, err := l.Ledger.AppendAll(some[0].File, l.facts...)
	for _, f := range l.facts[:n] {
		if f.Kind == state.KindEnd && f.UniID != "" {
			l.Ledger.RemoveAttempt(some[0].File, f.UniID)
		}
	}
	if err != nil {
		f := l.facts[min(n, len(l.facts)-1)]
		l.Log.Error().Err(err).Str("kind", string(f.Kind)).Str("job", f.Job).Msg("ledger")
		l.stateFailed(err)
	}
	return n
}

// save retries, in order, the ends that could not be written.
func (l *loop) save() {
	for len(l.unsaved) > 0 && l.append(l.unsaved[:1]) == 1 {
		l.unsaved = l.unsaved[1:]
	}
}
