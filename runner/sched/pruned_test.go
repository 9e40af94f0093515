package sched

import (
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"gpurun/gpu"
	"gpurun/jobspec"
	"gpurun/runner/sched/stall"
	"gpurun/state"
)

// A sweep is a world whose jobs report steps and may be pruned.
type sweep struct {
	*world
	ended   []string          // "uni_id why" of attempts that the core asked to end
	decided map[string]string // by job: why it was pruned
	starts  []state.Fact
	warned  []string
}

var pruneRule = jobspec.Prune{Metric: "acc", Goal: jobspec.Max, After: 3, Keep: 0.5, Min: 2}

func newSweep(t *testing.T, jobs int) *sweep {
	s := &sweep{world: newWorld(t), decided: map[string]string{}}
	s.b.Settings.MaxConcurrent = 3
	for i := range jobs {
		s.job(fmt.Sprint("j", i), "true", jobspec.Spec{Prune: pruneRule, Request: jobspec.Spec{}.Request}, "")
	}
	s.hook = func(a Action) {
		switch a := a.(type) {
		case End:
			s.ended = append(s.ended, a.UniID+" "+a.Why)
		case Warn:
			s.warned = append(s.warned, a.Text)
		case Record:
			if f := a.Fact; f.Kind == state.KindStop && f.Why == state.WhyPruned {
				if was := s.decided[f.Job]; was != "" && was != f.Reason {
					t.Errorf("%s was pruned for %q, then for %q", f.Job, was, f.Reason)
				}
				s.decided[f.Job] = f.Reason
			}
			if a.Fact.Kind == state.KindStart {
				s.starts = append(s.starts, a.Fact)
			}
		}
	}
	return s
}

// begin starts a run. The engine reports that all open attempts are still running.
func (s *sweep) begin() {
	s.open()
	s.send(Began{})
	for _, uni := range s.adopt {
		s.send(Started{UniID: uni, PID: 1, PIDStart: 1})
	}
	s.obey()
}

// report returns the event that an attempt has reported values from step on.
func (s *sweep) report(uni string, step float64, values ...float64) Event {
	r := stall.Work{UniID: uni, Output: -1, CPU: -1}
	for i, v := range values {
		r.Points = append(r.Points, state.Point{Step: step + float64(i), Value: v})
	}
	return ProgressSampled{Work: []stall.Work{r}}
}

// obey ends the attempts that the core asked to end.
func (s *sweep) obey() {
	for _, x := range s.ended {
		if uni, why, _ := strings.Cut(x, " "); s.live[uni] {
			s.exit(uni, Ended{End: state.End{ExitCode: -1, Signal: "SIGTERM", Why: why}})
		}
	}
	s.ended = nil
}

// The runner may die between any two actions. The next run must make the same decisions from the ledger.
func TestPruningIsTheSameAfterCrash(t *testing.T) {
	const steps = 6
	value := func(job string, step int) float64 {
		n := float64(job[1] - '0')
		return math.Mod(n*0.37, 1)*float64(step) + 0.01*float64(step%3)
	}
	// The runner dies during report number crash, after it has completed some actions of that Step. run
	// returns why jobs were pruned, the final phases, and whether the runner died before the last action.
	run := func(crash, actions int) (map[string]string, map[string]state.Phase, bool) {
		s := newSweep(t, 9)
		s.begin()
		reported, died := 0, false
		for s.done == nil {
			for _, uni := range slices.Sorted(maps.Keys(s.live)) {
				a := s.core.live.byID[uni]
				if a == nil {
					continue
				}
				step := 1
				if o := s.core.h.Open[uni]; len(o.Points) > 0 {
					step = int(o.Points.Last()) + 1
				}
				if step > steps {
					s.exit(uni, Ended{})
					continue
				}
				ev := s.report(uni, float64(step), value(a.name, step))
				if reported++; reported != crash {
					s.send(ev)
					s.obey()
					continue
				}
				all := s.core.Step(s.now, ev)
				if died = actions < len(all); died {
					all = all[:actions]
				}
				for _, x := range all {
					s.act(x)
				}
				s.begin()
				if o := s.core.h.Open[uni]; o != nil && int(o.Points.Last()) < step { // the next run reads the point again
					s.send(ev)
					s.obey()
				}
			}
		}
		phases := map[string]state.Phase{}
		for i := range s.b.Jobs {
			phases[s.b.Jobs[i].Name] = s.core.Phase(i)
		}
		return s.decided, phases, died
	}
	want, phases, _ := run(0, 0)
	if len(want) < 3 || len(want) > 7 {
		t.Fatalf("without a crash, %d jobs are pruned, want 3 to 7: %v", len(want), want)
	}
	crashes := 0
	for crash := 1; crash <= 40; crash++ {
		for actions := 0; ; actions++ {
			got, ended, died := run(crash, actions)
			if !maps.Equal(got, want) {
				t.Fatalf("with a crash at report %d after %d actions, the decisions are %v\nwithout: %v", crash, actions, got, want)
			}
			for name, p := range ended {
				if (p == state.Pruned) != (phases[name] == state.Pruned) {
					t.Fatalf("with a crash at report %d after %d actions, %s is %s, without %s", crash, actions, name, p, phases[name])
				}
			}
			if !died {
				break
			}
			crashes++
		}
	}
	if crashes < 40 {
		t.Errorf("tested only %d crashes", crashes)
	}
}

// behind returns a sweep of three jobs in which j2 fell behind and was pruned.
func behind(t *testing.T, more func(*sweep)) *sweep {
	s := newSweep(t, 3)
	if more != nil {
		more(s)
	}
	s.begin()
	for i, v := range []float64{0.9, 0.9, 0.1} {
		s.send(s.report(fmt.Sprintf("j%d.1", i), 1, v, v, v))
	}
	s.obey()
	return s
}

func (s *sweep) phase(name string) state.Phase { return s.core.Phase(s.id(name)) }

func TestPrunedJobIsNotAFailureAndDoesNotRunAgain(t *testing.T) {
	s := behind(t, func(s *sweep) { s.job("eval", "true", jobspec.Spec{}, "", "j2") })
	if p, q := s.phase("j2"), s.phase("eval"); p != state.Pruned || q != state.Pruned || p.Bad() {
		t.Fatalf("j2 is %s, eval is %s, want both pruned", p, q)
	}
	if c := s.core.Blocked(s.id("eval")); c == nil || c.Code != state.CausePruned || c.Text != "needs j2, which was pruned" {
		t.Errorf("eval has the cause %+v", c)
	}
	s.exit("j0", Ended{})
	s.exit("j1", Ended{})
	r := s.core.last(int32(s.id("j2")))
	if s.done == nil || r.State != state.Pruned || r.ErrorType != "" || r.Cause != state.CausePruned || !strings.HasPrefix(r.Reason, "best acc was 0.1 up to step 3") || len(r.Points) == 0 {
		t.Fatalf("after the run (%v), the record is %+v", s.done, r)
	}
	s.begin()
	if s.done == nil || s.phase("j2") != state.Pruned || s.phase("eval") != state.Pruned {
		t.Errorf("in the next run, j2 is %s, eval is %s, want both pruned", s.phase("j2"), s.phase("eval"))
	}
	s.opts.NoPrune = true
	s.begin()
	if s.phase("j2") != state.Running {
		t.Errorf("with NoPrune, j2 is %s", s.phase("j2"))
	}
	s.send(s.report("j2.2", 1, 0.1, 0.1, 0.1, 0.1))
	if len(s.ended) > 0 {
		t.Errorf("with NoPrune, the core ended %v", s.ended)
	}
	s.exit("j2", Ended{})
	if s.phase("eval") != state.Running {
		t.Errorf("after j2 succeeded, eval is %s", s.phase("eval"))
	}
}

// If prune is removed from a pruned job, the job runs again.
func TestPrunedJobRunsAgainWithoutPrune(t *testing.T) {
	s := behind(t, nil)
	s.b.Jobs[2].Spec = &jobspec.Spec{When: jobspec.OnSuccess}
	s.begin()
	if p := s.phase("j2"); p != state.Running {
		t.Errorf("j2 is %s", p)
	}
}

func TestRetriedPrunedJobIsNotPrunedAgain(t *testing.T) {
	s := behind(t, func(s *sweep) { s.job("eval", "true", jobspec.Spec{}, "", "j2") })
	s.send(RetryRequested{Jobs: []int{2}})
	if p, q := s.phase("j2"), s.phase("eval"); p != state.Running || q != state.Pending || !s.starts[len(s.starts)-1].NoPrune {
		t.Fatalf("after the retry, j2 is %s, eval is %s", p, q)
	}
	s.send(s.report("j2.2", 1, 0.1, 0.1, 0.1, 0.1))
	s.begin() // the next run adopts it
	s.send(s.report("j2.2", 5, 0.1))
	s.obey()
	if p := s.phase("j2"); p != state.Running {
		t.Fatalf("j2 is %s", p)
	}
	s.exit("j2", Ended{End: state.End{ExitCode: 1}})
	s.exit("j0", Ended{})
	s.exit("j1", Ended{})
	s.begin() // after the failure, it must not be pruned either
	s.send(s.report("j2.3", 1, 0.1, 0.1, 0.1, 0.1))
	s.obey()
	if p := s.phase("j2"); p != state.Running {
		t.Errorf("j2 is %s", p)
	}
}

func TestMissingMetricIsWarnedAboutOnce(t *testing.T) {
	s := newSweep(t, 3)
	s.begin()
	s.exit("j0", Ended{End: state.End{ExitCode: 1}}) // no warning: it may have failed before its first step
	for _, name := range []string{"j1", "j2"} {
		s.exit(name, Ended{})
	}
	if s.done == nil || len(s.warned) != 1 || !strings.Contains(s.warned[0], "the log of j1 has no acc") {
		t.Errorf("got warnings %q, want one about j1", s.warned)
	}
}

// The last points of an attempt arrive with its end. They must count, so that short attempts are compared.
func TestPointsReportedWithEndCount(t *testing.T) {
	s := newSweep(t, 3)
	s.begin()
	for i := range 2 {
		s.exit(fmt.Sprint("j", i), Ended{Points: []state.Point{{Step: 3, Value: 0.9}}})
	}
	s.send(s.report("j2.1", 3, 0.1))
	s.obey()
	if p := s.phase("j2"); p != state.Pruned {
		t.Errorf("j2 is %s", p)
	}
}

// An attempt that resumes from a checkpoint replaces the points after it. Before its first point, it must
// not be stopped because of points of earlier attempts.
func TestPruneAfterRestart(t *testing.T) {
	s := newSweep(t, 3)
	for i := range s.b.Jobs {
		s.b.Jobs[i].Spec.Retry.Max = 1
	}
	s.begin()
	s.send(s.report("j2.1", 1, 0.1, 0.1, 0.1))
	s.exit("j2", Ended{End: state.End{ExitCode: 1}})
	s.wait(time.Second)
	s.send(s.report("j0.1", 1, 0.9, 0.9, 0.9))
	s.send(s.report("j1.1", 1, 0.9, 0.9, 0.9))
	if s.obey(); s.phase("j2") != state.Running {
		t.Fatalf("j2 is %s", s.phase("j2"))
	}
	s.send(s.report("j2.2", 2, 0.2))
	if c := s.core.pruning.curves[2]; s.phase("j2") != state.Running || len(c) != 2 || c.Last() != 2 {
		t.Fatalf("j2 is %s, with %v", s.phase("j2"), c)
	}
	s.send(s.report("j2.2", 3, 0.2))
	if s.obey(); s.phase("j2") != state.Pruned {
		t.Errorf("j2 is %s", s.phase("j2"))
	}
}

// An elastic job keeps its points when it is resized, and is judged by all of them, even while the next
// resize is announced.
func TestPruneAfterResize(t *testing.T) {
	s := newSweep(t, 3)
	for i := range s.b.Jobs {
		s.b.Jobs[i].Spec.Resize = jobspec.Resize{Up: 80, Down: 30, Signal: "USR1", Grace: time.Minute, Every: time.Minute}
	}
	s.begin()
	s.send(s.report("j2.1", 1, 0.1, 0.3))
	s.exit("j2", Ended{End: state.End{Why: state.WhyResize}, Points: []state.Point{{Step: 3, Value: 0.2}}})
	if c := s.core.pruning.curves[2]; s.phase("j2") != state.Running || c.Last() != 3 {
		t.Fatalf("j2 is %s, with %v", s.phase("j2"), c)
	}
	s.send(s.report("j0.1", 4, 0.9))
	s.send(s.report("j1.1", 4, 0.9))
	s.send(StopAnnounced{UniID: "j2.2", Why: state.WhyResize})
	s.send(s.report("j2.2", 4, 0.25))
	if s.obey(); s.phase("j2") != state.Pruned || !strings.HasPrefix(s.decided["j2"], "best acc was 0.3 up to step 4") {
		t.Errorf("j2 is %s: %s", s.phase("j2"), s.decided["j2"])
	}
}

// Jobs are compared only with jobs that differ in nothing but the parameters listed in among.
func TestOnlyComparableJobsArePruned(t *testing.T) {
	s := newSweep(t, 3)
	s.job("other", "false", jobspec.Spec{Prune: pruneRule, Template: 1}, "")
	s.b.Settings.MaxConcurrent = 4
	s.begin()
	for i, v := range []float64{0.9, 0.9, 0.1} {
		s.send(s.report(fmt.Sprintf("j%d.1", i), 3, v))
	}
	s.send(s.report("other.1", 3, 0.1))
	if s.obey(); s.phase("j2") != state.Pruned || s.phase("other") != state.Running {
		t.Errorf("j2 is %s, other %s", s.phase("j2"), s.phase("other"))
	}
}

// A job in the queue of a cluster must not be pruned before it runs.
func TestClusterJobIsPrunedOnlyWhileRunning(t *testing.T) {
	s := newSweep(t, 3)
	s.opts.Queues, s.opts.Elsewhere = true, true
	s.begin()
	for i := range 2 {
		s.send(Started{UniID: fmt.Sprintf("j%d.1", i), PID: 1, Host: "node"})
		s.send(s.report(fmt.Sprintf("j%d.1", i), 3, 0.9))
	}
	s.send(s.report("j2.1", 3, 0.1))
	if len(s.ended) > 0 {
		t.Fatalf("ended while queued: %v", s.ended)
	}
	s.send(Started{UniID: "j2.1", PID: 1, Host: "node"})
	s.send(s.report("j2.1", 4, 0.1))
	s.send(s.report("j0.1", 4, 0.9))
	s.send(s.report("j1.1", 4, 0.9))
	if !slices.Equal(s.ended, []string{"j2.1 pruned"}) {
		t.Errorf("got ended %v, want j2.1 pruned", s.ended)
	}
}

// A program may report thousands of steps per minute. The ledger keeps only steps that are at least one
// percent after the previous one.
func TestPointsAreThinned(t *testing.T) {
	s := newSweep(t, 1)
	s.begin()
	for step := range 5000 {
		s.send(s.report("j0.1", float64(step), float64(step)))
	}
	facts := 0
	for _, r := range s.ledger {
		if r.Fact.Kind == state.KindPoints {
			facts++
		}
	}
	s.exit("j0", Ended{Points: []state.Point{{Step: 5000, Value: 1}}})
	if c := s.core.last(0).Points; facts > 600 || c.Last() != 5000 {
		t.Errorf("%d facts, want at most 600; %d points up to step %v, want 5000", facts, len(c), c.Last())
	}
}

// Reports of earlier attempts on other inputs must not count, neither for the job itself nor for others,
// and not in the next run either.
func TestReportsOnOldInputsDoNotCount(t *testing.T) {
	changed := func(s *sweep) {
		s.send(Looked{Evidence: map[int]Evidence{0: {ChangedInput: "data"}, 1: {ChangedInput: "data"}, 2: {ChangedInput: "data"}}})
	}
	for name, x := range map[string]struct {
		past  func(*sweep)
		looks func(*sweep)
	}{
		"inputs changed": {func(*sweep) {}, changed},
		"forgotten": {func(s *sweep) {
			for i := range s.b.Jobs {
				s.ledger = append(s.ledger, Record{Fact: state.Fact{Kind: state.KindForget, Key: s.b.Jobs[i].Key.String()}})
			}
		}, func(*sweep) {}},
	} {
		t.Run(name, func(t *testing.T) {
			s := behind(t, nil)
			s.exit("j0", Ended{})
			s.exit("j1", Ended{})
			x.past(s)
			begin := func() {
				s.open()
				x.looks(s)
				s.send(Began{})
				for _, uni := range s.adopt {
					s.send(Started{UniID: uni, PID: 1, PIDStart: 1})
				}
				s.obey()
			}
			s.decided = map[string]string{}
			begin()
			for range 2 {
				for i := range s.b.Jobs {
					if p := s.core.Phase(i); p != state.Running {
						t.Fatalf("j%d is %s", i, p)
					}
				}
				s.send(s.report("j2.2", 1, 0.5, 0.5, 0.5))
				if s.obey(); s.phase("j2") != state.Running || s.starts[len(s.starts)-1].NoPrune || !s.starts[len(s.starts)-1].Anew {
					t.Fatalf("j2 is %s because of old reports: %s", s.phase("j2"), s.decided["j2"])
				}
				begin() // after a crash
			}
			s.send(s.report("j0.2", 1, 0.6, 0.6, 0.6))
			s.send(s.report("j1.2", 1, 0.6, 0.6, 0.6))
			s.obey()
			if s.phase("j2") != state.Pruned || !strings.HasPrefix(s.decided["j2"], "best acc was 0.5 up to step 3, where 1 of 2 others had 0.6") {
				t.Fatalf("j2 is %s: %q", s.phase("j2"), s.decided["j2"])
			}
			s.exit("j0", Ended{})
			s.exit("j1", Ended{})
			if r := s.core.last(2); r.State != state.Pruned || r.NoPrune || r.Points[0].Value != 0.5 {
				t.Errorf("got the record %+v", r)
			}
		})
	}
}

// A job that was pruned on simulated GPUs has not been tried on real ones, so it must run.
func TestPrunedOnSimulatedGPUsRunsOnRealOnes(t *testing.T) {
	s := behind(t, nil)
	s.exit("j0", Ended{})
	s.exit("j1", Ended{})
	for i := range s.ledger {
		if f := &s.ledger[i].Fact; f.Kind == state.KindStart {
			f.GPUUUIDs = []gpu.UUID{gpu.SimulatedUUID(1, 0)}
		}
	}
	s.open()
	if v := s.core.Verdict(2); !v.Run || v.Reason != "pruned on simulated GPUs only" {
		t.Errorf("got the verdict %+v", v)
	}
	s.send(Began{})
	if f := s.starts[len(s.starts)-1]; f.Job != "j2" || f.NoPrune || !f.Anew {
		t.Errorf("got the start %+v", f)
	}
}
