package runner

import (
	"gpurun/runner/sched"
	"gpurun/state"
)

// record appends a fact and shows it. A start that the ledger cannot take is
// never launched; an end that it cannot take stays in the attempt's own record,
// and is tried again until the run is over.
func (l *loop) record(a sched.Record) {
	if len(l.unsaved) > 0 || !l.append(a) {
		if a.Fact.Kind == state.KindStart {
			l.dropped[a.Fact.UniID] = true
			return
		}
		l.unsaved = append(l.unsaved, a)
	}
	l.tell(a)
}

// tell shows a fact to everybody who wants to see it.
func (l *loop) tell(a sched.Record) {
	l.out.fact(l, a)
	for _, s := range l.Sinks {
		s.Fact(a.Job, a.Fact)
	}
}

// append writes one fact; the first that fails makes the core start nothing more.
func (l *loop) append(a sched.Record) bool {
	err := l.Ledger.Append(a.File, a.Fact)
	if err == nil {
		if a.Fact.Kind == state.KindEnd && a.Fact.UniID != "" {
			l.Ledger.RemoveAttempt(a.File, a.Fact.UniID)
		}
		return true
	}
	l.Log.Error().Err(err).Str("kind", string(a.Fact.Kind)).Str("job", a.Fact.Job).Msg("ledger")
	l.stateFailed(err)
	return false
}

// save tries again what the ledger could not take, in order.
func (l *loop) save() {
	for len(l.unsaved) > 0 && l.append(l.unsaved[0]) {
		l.unsaved = l.unsaved[1:]
	}
}
