package batches

import (
	"time"

	"gpurun/jobspec"
	"gpurun/runner"
	"gpurun/runner/control"
	"gpurun/runner/sched"
	"gpurun/state"
	"gpurun/state/disk"
	"gpurun/state/schema"
)

// Progress returns how the batch is, for people.
func (ref *Ref) Progress() *Progress {
	s := &Progress{File: ref.Name(), Command: ref.Command(), Alive: ref.Alive && !ref.past, Runner: ref.Runner, LastRun: ref.run.Time, Snapshotted: schema.Known(ref.run.Snapshot), Changed: disk.Changed(ref.Dir), Lists: map[state.Phase][]string{}, Took: map[state.Phase][]float64{}}
	s.Unread = ref.unread()
	rep, err := ref.Ask(control.Request{Op: control.OpStatus, Whole: true})
	m, live := aftermath{}, rep.Status
	if err == nil && rep.Snapshot != nil && live != nil {
		s.Alive, s.Snapshot, s.Snapshotted = true, *rep.Snapshot, live.Run.Snapshot
	} else {
		live = nil
		if s.Alive {
			s.Mute = err.Error()
		}
		m = ref.Settle()
		s.Snapshot = m.snapshot(ref)
	}
	s.Died = !ref.Alive && !ref.past && ref.Runner.PID != 0
	s.ended(ref, m, live)
	if k, ok := readSummary(ref.Dir); ok && !s.Alive && !ref.past && len(m.ended)+len(s.Running) == 0 && (k.code != ExitDone || len(s.Earlier) == 0) {
		s.Summary = &k
	}
	s.Outcome = schema.OutcomeOf(describeRun(ref), schema.CountsOf(s.Counts))
	return s
}

// ended lists the jobs whose last attempt is over, with details of the attempt.
func (s *Progress) ended(ref *Ref, m aftermath, live *schema.Status) {
	b := ref.Batch
	phases := s.phases(b, ref.History, live)
	records := make([]*state.Record, len(phases))
	for id, p := range phases {
		r := ref.History.Of(b.Jobs[id].File, b.Jobs[id].Key.String())
		list := p
		if s.Alive && r != nil && r.Forgotten {
			list = Forgotten
		}
		s.Lists[list] = append(s.Lists[list], b.Jobs[id].Name)
		if records[id] = r; r != nil && r.State == state.Succeeded && p.Ended() && r.Seconds > 0 {
			s.Took[p] = append(s.Took[p], r.Seconds)
		}
		if r != nil && p.Bad() && r.Time.Before(s.LastRun) {
			s.Earlier = append(s.Earlier, b.Jobs[id].Name)
		}
	}
	s.Failures = runner.Failures(b, func(id int) state.Phase { return phases[id] }, func(id int) (runner.Last, bool) {
		if records[id] == nil {
			return runner.Last{}, false
		}
		return runner.Recorded(records[id]), true
	})
	for i := range s.Failures {
		if m.ended[s.Failures[i].End.UniID] && s.Failures[i].Alike.Count <= 1 {
			s.Failures[i].Note = "meanwhile"
		}
	}
}

// phases returns the phase of each job. The ledger does not tell which jobs a live run has yet
// to run; it counts those that have been added to their files since the run read them.
func (s *Progress) phases(b *jobspec.Batch, h *state.History, live *schema.Status) []state.Phase {
	phases := sched.Phases(b, h)
	if live == nil {
		return phases
	}
	told := map[jobPlace]state.Phase{}
	for i := range live.Jobs {
		told[placeOf(&live.Jobs[i])] = live.Jobs[i].State
	}
	for id := range phases {
		j := &b.Jobs[id]
		switch p, known := told[placeIn(b, j)]; {
		case p != "":
			phases[id] = p
		case known: // it was not selected
			phases[id] = state.Pending
		default:
			s.Counts[phases[id]]++
		}
	}
	return phases
}

// Forgotten jobs of a live run have ended in it, and run in the next one.
const Forgotten state.Phase = "forgotten, for the next run"

// A Progress is what is known about a batch at one moment, for people.
type Progress struct {
	File    string
	Command string // what runs the rest
	Alive   bool   // whether a run holds the lock
	Runner  disk.Runner
	Mute    string // why that run does not answer
	Unread  string // why this is not based on the job file
	LastRun time.Time
	state.Snapshot

	Outcome     schema.Outcome
	Earlier     []string                  // jobs that failed before the last run, whose summary does without them
	Lists       map[state.Phase][]string  // names of the jobs, in the order of the batch
	Took        map[state.Phase][]float64 // how long jobs took that succeeded
	Failures    []state.FailedJob         // as displayed
	Changed     time.Time                 // the ledger's last change
	Snapshotted *string                   // the copy of the code that jobs run in; nil for none
	Died        bool                      // the last run did not get to its end
	Summary     *summary                  // the last run's summary, unless something has happened since
}

// Exit returns the exit status of a batch's last run.
func (s *Progress) Exit() int {
	if s.Summary != nil {
		return s.Summary.code
	}
	res := state.Result{Final: s.Snapshot}
	if s.Counts[state.Interrupted] > 0 {
		res.Stopped = "SIGTERM"
	}
	return ExitOf(res, false)
}
