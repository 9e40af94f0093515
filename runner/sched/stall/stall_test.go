package stall

import (
	"testing"
	"time"

	"gpurun/gpu"
	"gpurun/jobspec"
)

// Each row simulates an attempt for up to a day: its work before each look, and the first report.
func TestLookReportsStalls(t *testing.T) {
	half := jobspec.Stall{After: 30 * time.Minute}
	for name, c := range map[string]struct {
		stall jobspec.Stall
		gpus  bool
		each  func(i int, w *Watch, did *Work, now time.Duration) // called before look i
		want  string                                              // the first report; "" for none
	}{
		"nothing":        {half, false, func(int, *Watch, *Work, time.Duration) {}, "no output or CPU use for 30 min"},
		"output":         {half, false, func(_ int, _ *Watch, did *Work, _ time.Duration) { did.Output++ }, ""},
		"CPU":            {half, false, func(_ int, _ *Watch, did *Work, _ time.Duration) { did.CPU += time.Second }, ""},
		"hardly any CPU": {half, false, func(_ int, _ *Watch, did *Work, _ time.Duration) { did.CPU += 200 * time.Millisecond }, "no output or CPU use for 30 min"},
		"unknown CPU":    {half, false, func(_ int, _ *Watch, did *Work, _ time.Duration) { did.CPU = -1 }, ""},
		"unread GPUs":    {half, true, func(int, *Watch, *Work, time.Duration) {}, ""},
		"idle GPUs":      {half, true, func(_ int, w *Watch, _ *Work, now time.Duration) { w.Lit(reading(now, 0), now) }, "no output, CPU or GPU use for 30 min"},
		"busy GPUs":      {half, true, func(_ int, w *Watch, _ *Work, now time.Duration) { w.Lit(reading(now, 3), now) }, ""},
		"unknown use":    {half, true, func(_ int, w *Watch, _ *Work, now time.Duration) { w.Lit(&gpu.Reading{Listed: true}, now) }, "no output, CPU or GPU use for 30 min"},
		"hung NCCL": {jobspec.Stall{After: time.Hour, Output: 3 * time.Hour}, true, func(_ int, w *Watch, did *Work, now time.Duration) {
			w.Lit(reading(now, 100), now)
			did.CPU += time.Hour
		}, "no output for 3 h 0 min"},
		"unknown output":  {jobspec.Stall{Output: time.Hour}, false, func(_ int, _ *Watch, did *Work, _ time.Duration) { did.Output = -1 }, ""},
		"a shrunk log":    {jobspec.Stall{Output: time.Hour}, false, func(i int, _ *Watch, did *Work, _ time.Duration) { did.Output = int64(i % 2) }, ""},
		"a burst on GPUs": {half, true, func(i int, w *Watch, _ *Work, now time.Duration) { w.Lit(reading(now, i%50/49), now) }, ""},
	} {
		t.Run(name, func(t *testing.T) {
			var w Watch
			var did Work
			now, got := time.Hour, ""
			for i := 0; i < 24*120 && got == ""; i++ {
				now += Pace(c.stall)
				c.each(i, &w, &did, now)
				got = w.Look(c.stall, did, c.gpus, now)
			}
			if got != c.want || w.LastReport() != got {
				t.Errorf("got %q, want %q", got, c.want)
			}
		})
	}
}

func reading(now time.Duration, percent int) *gpu.Reading {
	return &gpu.Reading{Listed: true, Samples: []gpu.Sample{{At: now, Percent: percent}}}
}

// However long a machine is suspended, no attempt may be reported as stalled.
func TestNothingStallsWhileSuspended(t *testing.T) {
	var w Watch
	s := jobspec.Stall{After: time.Second}
	for _, now := range []time.Duration{1, 9 * time.Hour, 18 * time.Hour} {
		if got := w.Look(s, Work{}, false, now); got != "" {
			t.Errorf("at %s: got %q, want no report", now, got)
		}
	}
}

func TestPaceFollowsSettings(t *testing.T) {
	for s, want := range map[jobspec.Stall]time.Duration{
		{}:                                      0,
		{After: time.Second}:                    100 * time.Millisecond,
		{After: time.Minute}:                    3 * time.Second,
		{Output: time.Minute}:                   3 * time.Second,
		{After: 30 * time.Minute}:               30 * time.Second,
		{After: 1, Output: 1 << 60}:             100 * time.Millisecond,
		{After: time.Hour, Output: time.Minute}: 3 * time.Second,
	} {
		if got := Pace(s); got != want {
			t.Errorf("%+v: got %s, want %s", s, got, want)
		}
	}
}
