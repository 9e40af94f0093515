package cli

import (
	"errors"
	"testing"
	"time"

	"gpurun/runner/batches"
	"gpurun/state"
	"gpurun/state/schema"
)

func TestExitStatusOfRun(t *testing.T) {
	ended := func(p state.Phase) *schema.Status {
		return &schema.Status{Counts: map[state.Phase]int{state.Succeeded: 3, p: 1}}
	}
	full := errors.New("no space left")
	cases := map[string]struct {
		r      schema.Result
		noWait bool
		want   int
	}{
		"all done":    {schema.Result{Final: ended(state.Succeeded)}, false, 0},
		"up to date":  {schema.Result{Final: ended(state.UpToDate)}, false, 0},
		"failed":      {schema.Result{Final: ended(state.Failed)}, false, 1},
		"timeout":     {schema.Result{Final: ended(state.Timeout)}, false, 1},
		"oom":         {schema.Result{Final: ended(state.OOM)}, false, 1},
		"lost":        {schema.Result{Final: ended(state.Lost)}, false, 1},
		"blocked":     {schema.Result{Final: ended(state.Blocked)}, false, 1},
		"cancelled":   {schema.Result{Final: ended(state.Cancelled)}, false, 1},
		"gave up":     {schema.Result{Final: ended(state.Failed), GaveUp: true}, false, 124},
		"no wait":     {schema.Result{Final: ended(state.Pending), GaveUp: true}, true, 75},
		"disk full":   {schema.Result{Final: ended(state.Failed), GaveUp: true, StateErr: full}, false, 4},
		"Ctrl-C":      {schema.Result{Final: ended(state.Failed), StateErr: full, Stopped: "SIGINT"}, false, 130},
		"SIGTERM":     {schema.Result{Final: ended(state.Interrupted), Stopped: "SIGTERM"}, false, 143},
		"gpurun stop": {schema.Result{Final: ended(state.Interrupted), Stopped: "gpurun stop"}, false, 143},
		"jobs left":   {schema.Result{Final: ended(state.Pending)}, false, 1},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			if got := batches.ExitOf(c.r, c.noWait); got != c.want {
				t.Errorf("got %d, want %d", got, c.want)
			}
		})
	}
}

func TestMistypedCommandGetsSuggestion(t *testing.T) {
	cases := map[string]string{
		"stauts": "status", "satus": "status", "paln": "plan", "plna": "plan", "chekc": "check", "gpsu": "gpus", "rnu": "run", "ruin": "run", "lgo": "log",
		"froget": "forget", "Status": "status", "dnoe": "done", "kill": "stop", "ps": "ls", "jobs": "", "x": "", "experiment": "", "train-1": "",
	}
	for word, want := range cases {
		if got := nearest(word); got != want {
			t.Errorf("nearest(%q) = %q, want %q", word, got, want)
		}
	}
}

func TestFlagsParseTimesAndCounts(t *testing.T) {
	times := map[string]time.Duration{"60": time.Minute, "90s": 90 * time.Second, "2d": 48 * time.Hour, "1d12h": 36 * time.Hour, "0": 0}
	for text, want := range times {
		var got timeFlag
		if err := got.UnmarshalText([]byte(text)); err != nil || time.Duration(got) != want {
			t.Errorf("time %q: got %v, %v, want %v", text, time.Duration(got), err, want)
		}
	}
	counts := map[string]countFlag{"2": {2, 2}, "2-4": {2, 4}, "0": {0, 0}}
	for text, want := range counts {
		var got countFlag
		if err := got.UnmarshalText([]byte(text)); err != nil || got != want {
			t.Errorf("count %q: got %v, %v, want %v", text, got, err, want)
		}
	}
	for _, bad := range []string{"", "x", "-1", "1.5", "4-2", "99999999999999999999"} {
		var d timeFlag
		var c countFlag
		var p percentFlag
		for what, err := range map[string]error{"count": c.UnmarshalText([]byte(bad)), "percent": p.UnmarshalText([]byte(bad))} {
			if err == nil {
				t.Errorf("%s %q was accepted", what, bad)
			}
		}
		if err := d.UnmarshalText([]byte(bad)); err == nil {
			t.Errorf("time %q was accepted", bad)
		}
	}
}
