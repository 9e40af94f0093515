package batches

import (
	"time"

	"gpurun/runner"
	"gpurun/state"
	"gpurun/state/disk"
	"gpurun/state/schema"
)

// Progress returns the state of the batch for display.
func (ref *Ref) Progress() *Progress {
	s := &Progress{Status: ref.Status(), File: ref.Name(), Command: ref.Command(), Runner: ref.Runner, LastRun: ref.run.Time, Changed: disk.Changed(ref.Dir), Lists: map[state.Phase][]*schema.Job{}}
	s.Alive, s.Died = s.Run != nil && s.Run.Alive, !ref.Alive && !ref.past && ref.Runner.PID != 0
	meanwhile := s.ended(ref)
	if k, ok := readSummary(ref.Dir); ok && !s.Alive && !ref.past && !meanwhile && len(s.In(state.Running, state.Queued)) == 0 && (k.code != ExitDone || len(s.Earlier) == 0) {
		s.Summary = &k
	}
	return s
}

// ended lists the jobs by phase and details the last attempts of failed ones. It reports whether
// any attempt has ended since its run was killed.
func (s *Progress) ended(ref *Ref) (meanwhile bool) {
	b := ref.Batch
	for _, j := range s.Jobs {
		list := j.State
		if s.Alive && j.State.Ended() && j.Plan != nil && j.Plan.Code == schema.PlanForgotten {
			list = Forgotten
		}
		s.Lists[list] = append(s.Lists[list], j)
		if a := j.Attempt; a != nil && a.Ended != nil {
			meanwhile = meanwhile || a.Meanwhile
			if j.State.Bad() && a.Ended.Before(s.LastRun) {
				s.Earlier = append(s.Earlier, j.Name)
			}
		}
	}
	s.Failures = runner.Failures(b, func(id int) state.Phase { return s.Jobs[id].State }, func(id int) runner.Last {
		return runner.Recorded(ref.History.Of(b.Jobs[id].File, b.Jobs[id].Key.String()))
	})
	for i := range s.Failures {
		if f := &s.Failures[i]; f.Alike.Count <= 1 && ref.after != nil && ref.after.meanwhile(f.End.UniID) {
			f.Note = "meanwhile"
		}
	}
	return meanwhile
}

// Forgotten is the phase of jobs that were forgotten after they ended in the live run. The next run
// will run them again.
const Forgotten state.Phase = "forgotten, will rerun next time"

// A Progress is a status with details for display.
type Progress struct {
	*schema.Status
	File    string
	Command string // the command that runs the rest
	Alive   bool   // a run holds the lock
	Runner  disk.Runner
	LastRun time.Time

	Earlier  []string                      // jobs that failed before the last run, so its summary lacks them
	Lists    map[state.Phase][]*schema.Job // in batch order
	Failures []schema.FailedJob            // as displayed
	Changed  time.Time                     // the ledger's last change
	Died     bool                          // the last run did not reach its end
	Summary  *summary                      // the last run's summary, unless something has happened since
}

// Exit returns the exit status of a batch's last run.
func (s *Progress) Exit() int {
	if s.Summary != nil {
		return s.Summary.code
	}
	res := schema.Result{Final: s.Status}
	if s.Counts[state.Interrupted] > 0 {
		res.Stopped = "SIGTERM"
	}
	code := ExitOf(res, false)
	if s.Run != nil && s.Run.Exit != nil && *s.Run.Exit != ExitDone && code != ExitDone {
		return *s.Run.Exit // a full disk may have kept the summary from being written
	}
	return code
}
