package runner

import (
	"gpurun/runner/sched"
	"gpurun/state"
)

// record takes a fact into what is written next. Several are one write: it is made
// before anything is done that a fact has to come before, and when the loop has
// nothing more to do. That an attempt's process is there may wait for company.
func (l *loop) record(a sched.Record) {
	l.unwritten = append(l.unwritten, a)
	l.urgent = l.urgent || a.Fact.Kind != state.KindRunning
	if at := l.live[a.Fact.UniID]; at != nil && a.Fact.Kind == state.KindStart {
		at.launch.Key, at.launch.Needs = a.Fact.Key, a.Fact.Needs
	}
}

// mayWait says that an action may be done before the facts that came before it are
// written.
func mayWait(a sched.Action) bool {
	switch a.(type) {
	case sched.Record, sched.Prepare, sched.Wake, sched.Read:
		return true
	}
	return false
}

// write puts the facts into their ledgers, and shows them. A start that the ledger
// cannot take is never launched, and its end is no news to the ledger; an end that
// it cannot take stays in the attempt's own record, and is tried again until the run
// is over.
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

// tell shows a fact to everybody who wants to see it.
func (l *loop) tell(a sched.Record) {
	l.out.fact(l, a)
	for _, s := range l.Sinks {
		s.Fact(a.Job, a.Fact)
	}
}

// append writes facts of one ledger, and says how many it took; the first that
// fails makes the core start nothing more.
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

// save tries again what the ledger could not take, in order.
func (l *loop) save() {
	for len(l.unsaved) > 0 && l.append(l.unsaved[:1]) == 1 {
		l.unsaved = l.unsaved[1:]
	}
}
