package session

import (
	"reflect"
	"testing"

	"gpurun/runner/sched"
)

func TestInterruptDrainsStopsKills(t *testing.T) {
	type asked struct{ drain, all, kill bool }
	cases := []struct {
		n    int
		tty  bool
		want asked
	}{
		{1, true, asked{drain: true}}, {2, true, asked{all: true}}, {3, true, asked{all: true, kill: true}}, {4, true, asked{all: true, kill: true}},
		{1, false, asked{all: true}}, {2, false, asked{all: true, kill: true}},
	}
	for _, c := range cases {
		s, hint := interrupt(c.n, c.tty)
		if got := (asked{s.Drain, s.All, s.Kill}); got != c.want || hint == "" {
			t.Errorf("SIGINT %d, tty %v: got %+v, %q, want %+v", c.n, c.tty, got, hint, c.want)
		}
	}
	for n, want := range []sched.StopRequested{{All: true, Why: "SIGTERM"}, {All: true, Kill: true, Why: "SIGTERM"}} {
		if got, _ := stopAll("SIGTERM", n+1); !reflect.DeepEqual(got, want) {
			t.Errorf("SIGTERM %d: got %+v, want %+v", n+1, got, want)
		}
	}
}
