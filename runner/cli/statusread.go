package cli

import (
	"gpurun/jobspec"
	"gpurun/runner"
	"gpurun/runner/batches"
	"gpurun/runner/control"
	"gpurun/runner/sched"
	"gpurun/state"
	"gpurun/state/disk"
	"gpurun/state/schema"
)

// readStatus returns the status for people, from the same sources.
func readStatus(ref *batches.Ref) *status {
	s := &status{File: ref.Name(), again: ref.Command(), Alive: ref.Alive && !ref.Past, Runner: ref.Runner, LastRun: ref.Run.Time, code: schema.Known(ref.Run.Snapshot), last: disk.Changed(ref.Dir), lists: map[state.Phase][]string{}, took: map[state.Phase][]float64{}}
	s.Unread = ref.Unread()
	rep, err := ref.Ask(control.Request{Op: control.OpStatus, Whole: true})
	m, live := batches.Aftermath{}, rep.Status
	if err == nil && rep.Snapshot != nil && live != nil {
		s.Alive, s.Snapshot, s.code = true, *rep.Snapshot, live.Run.Snapshot
	} else {
		live = nil
		if s.Alive {
			s.Mute = err.Error()
		}
		m = ref.Settle()
		s.Snapshot = m.Snapshot(ref)
	}
	s.died = !ref.Alive && !ref.Past && ref.Runner.PID != 0
	s.ended(ref, m, live)
	if k, ok := batches.ReadSummary(ref.Dir); ok && !s.Alive && !ref.Past && len(m.Ended)+len(s.Running) == 0 && (k.Code != batches.ExitDone || len(s.earlier) == 0) {
		s.kept = &k
	}
	s.outcome = schema.OutcomeOf(batches.DescribeRun(ref), schema.CountsOf(s.Counts))
	return s
}

// ended lists the jobs whose last attempt is over, with details of the attempt.
func (s *status) ended(ref *batches.Ref, m batches.Aftermath, live *schema.Status) {
	b := ref.Batch
	phases := s.phases(b, ref.History, live)
	records := make([]*state.Record, len(phases))
	for id, p := range phases {
		r := ref.History.Of(b.Jobs[id].File, b.Jobs[id].Key.String())
		list := p
		if s.Alive && r != nil && r.Forgotten {
			list = forgotten
		}
		s.lists[list] = append(s.lists[list], b.Jobs[id].Name)
		if records[id] = r; r != nil && r.State == state.Succeeded && p.Ended() && r.Seconds > 0 {
			s.took[p] = append(s.took[p], r.Seconds)
		}
		if r != nil && p.Bad() && r.Time.Before(s.LastRun) {
			s.earlier = append(s.earlier, b.Jobs[id].Name)
		}
	}
	s.fails = runner.Failures(b, func(id int) state.Phase { return phases[id] }, func(id int) (runner.Last, bool) {
		if records[id] == nil {
			return runner.Last{}, false
		}
		return runner.Recorded(records[id]), true
	})
	for i := range s.fails {
		if m.Ended[s.fails[i].End.UniID] && s.fails[i].Alike.Count <= 1 {
			s.fails[i].Note = "meanwhile"
		}
	}
}

// phases returns the phase of each job. The ledger does not tell which jobs a live run has yet
// to run; it counts those that have been added to their files since the run read them.
func (s *status) phases(b *jobspec.Batch, h *state.History, live *schema.Status) []state.Phase {
	phases := sched.Phases(b, h)
	if live == nil {
		return phases
	}
	told := map[batches.JobPlace]schema.State{}
	for i := range live.Jobs {
		told[batches.PlaceOf(&live.Jobs[i])] = live.Jobs[i].State
	}
	for id := range phases {
		j := &b.Jobs[id]
		switch p, known := told[batches.PlaceIn(b, j)]; {
		case p != "":
			phases[id] = p.Phase()
		case known: // it was not selected
			phases[id] = state.Pending
		default:
			s.Counts[phases[id]]++
		}
	}
	return phases
}
