package web

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"gpurun/gpu"
	"gpurun/state/schema"
)

// The first reading of a large batch takes a long time. It must not be followed by a pause ten
// times as long.
func TestLongFirstReadingDoesNotDelayTheNext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &Server{Config: Config{Limits: Limits{Idle: time.Minute}}}
		s.ctx, s.end = context.WithCancel(t.Context())
		defer s.Close()
		n := 0
		w := newWatch(s, time.Millisecond, func(context.Context) (int, error) {
			if n++; n == 1 {
				time.Sleep(time.Second)
			}
			return n, nil
		})
		first, err := w.read(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		select {
		case <-w.next(first):
		case <-time.After(8 * time.Second):
			t.Error("no reading within eight seconds after a first reading that took one second")
		}
	})
}

func TestFreshWaitsForFirstReading(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &Server{Config: Config{Limits: Limits{Idle: time.Minute}}}
		s.ctx, s.end = context.WithCancel(t.Context())
		defer s.Close()
		w := newWatch(s, time.Second, func(context.Context) (string, error) {
			time.Sleep(time.Second)
			return "read", nil
		})
		go func() { _, _ = w.read(t.Context()) }()
		synctest.Wait()
		if got, err := w.fresh(); got != "read" || err != nil {
			t.Errorf("got %q, %v", got, err)
		}
	})
}

func TestPastReadingsSurviveServerRestart(t *testing.T) {
	at := time.Date(2026, 3, 1, 8, 0, 0, 0, time.UTC)
	used, busy := 3*gpu.GiB, 40.6
	r := &schema.Readings{Step: 20, Time: []time.Time{at.Add(-2 * time.Hour), at.Add(-60 * time.Second), at.Add(-20 * time.Second)}, GPUs: []schema.ReadingsOfGPU{
		{Index: 1, UUID: "GPU-b", Used: []*gpu.Bytes{&used, &used, nil}, Util: []*float64{&busy, &busy, nil}},
	}}
	h := &hostWatch{step: 10 * time.Second}
	h.recall(nil, at)
	h.recall(&schema.Readings{Time: r.Time[:1], GPUs: r.GPUs}, at) // readings older than an hour are dropped
	if h.n != 0 {
		t.Fatalf("%d readings, want none", h.n)
	}
	h.recall(r, at)
	h.keep(&schema.GPUs{GPUs: []schema.GPU{{Index: 1, UUID: "GPU-b", Used: &used}}}, nil, at.Add(10*time.Second))
	if g := h.gpus[0]; len(h.gpus) != 1 || len(g.Used) != 360 || g.Used[0] != nil || g.Used[350] != nil || g.Used[352] == nil || *g.Util[352] != 40 || g.Util[358] != nil || g.Used[359] == nil {
		t.Errorf("got %d GPUs and %d readings, the last of which are %v", len(h.gpus), len(g.Used), g.Used[348:])
	}
}
