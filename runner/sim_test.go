package runner

import (
	"testing"
	"testing/synctest"
	"time"

	"gpurun/runner/engine"
	"gpurun/state"
)

var _ engine.Engine = (*Sim)(nil)

// outcome is the part of an end that a Play determines.
type outcome struct {
	Exit     int
	Signal   string
	Why      string
	Lost     bool
	Void     bool
	Report   string
	LeftOver int
}

func short(e state.End) outcome {
	return outcome{e.ExitCode, e.Signal, e.Why, e.Lost, e.Void, e.Report, e.LeftOver}
}

func TestSimFollowsPlay(t *testing.T) {
	launch := engine.Launch{Identity: engine.Identity{UniID: "a", Grace: 10 * time.Second}}
	withTimeout := launch
	withTimeout.Timeout = time.Minute
	tests := []struct {
		name   string
		launch engine.Launch
		play   Play
		stop   time.Duration // when to stop the attempt; 0: never
		how    engine.StopMode
		want   outcome
		after  time.Duration
	}{
		{"immediate", launch, Play{}, 0, 0, outcome{}, 0},
		{"exit 3 after an hour", launch, Play{For: time.Hour, Exit: 3}, 0, 0, outcome{Exit: 3}, time.Hour},
		{"signal", launch, Play{For: time.Hour, Signal: "SIGSEGV"}, 0, 0, outcome{Exit: -1, Signal: "SIGSEGV"}, time.Hour},
		{"Term", launch, Play{For: -1}, time.Hour, engine.Term, outcome{Exit: -1, Signal: "SIGTERM", Why: "cancelled"}, time.Hour},
		{"Term with a handler", launch, Play{For: -1, TermFor: 3 * time.Second}, time.Hour, engine.Term, outcome{Why: "cancelled"}, time.Hour + 3*time.Second},
		{"Term ignored", launch, Play{For: -1, TermFor: time.Hour}, time.Hour, engine.Term, outcome{Exit: -1, Signal: "SIGKILL", Why: "cancelled"}, time.Hour + 10*time.Second},
		{"Kill", launch, Play{For: -1, TermFor: time.Hour}, time.Hour, engine.Kill, outcome{Exit: -1, Signal: "SIGKILL", Why: "cancelled"}, time.Hour},
		{"timeout", withTimeout, Play{For: -1}, 0, 0, outcome{Exit: -1, Signal: "SIGTERM", Why: state.WhyTimeout}, time.Minute},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := NewSim(func(engine.Launch) Play { return tt.play })
				defer s.Close()
				begin := time.Now()
				s.Launch(tt.launch)
				if tt.stop > 0 {
					time.AfterFunc(tt.stop, func() { s.Stop("a", state.WhyCancelled, tt.how) })
				}
				if ev := <-s.Events(); ev.Running == nil {
					t.Fatalf("got %+v, want Running", ev)
				}
				ev := <-s.Events()
				if ev.Stopping != nil {
					ev.Stopping.Ack()
					ev = <-s.Events()
				}
				if got := short(*ev.Ended); got != tt.want {
					t.Errorf("ended as %+v, want %+v", got, tt.want)
				}
				if d := time.Since(begin); d != tt.after {
					t.Errorf("ended after %v, want %v", d, tt.after)
				}
			})
		})
	}
}

func TestSimAdoptsEarlierAttempts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := NewSim(nil)
		defer s.Close()
		started := time.Now().Add(-time.Hour)
		s.Leave("lives", started, Play{For: time.Hour, Exit: 4})
		s.LeaveEnded("over", state.End{ExitCode: 5})
		for _, id := range []string{"lives", "over", "never"} {
			s.Adopt(engine.Attempt{Identity: engine.Identity{UniID: id}})
		}
		if ev := <-s.Events(); ev.Running == nil || !ev.Running.Adopted || !ev.Running.Started.Equal(started) {
			t.Errorf("got %+v, want Running, adopted", ev)
		}
		want := []outcome{{Exit: 5}, {Exit: -1, Lost: true, Void: true}, {Exit: 4}}
		for _, w := range want {
			if ev := <-s.Events(); ev.Ended == nil || short(*ev.Ended) != w {
				t.Errorf("got %+v, want an end as %+v", ev, w)
			}
		}
	})
}
