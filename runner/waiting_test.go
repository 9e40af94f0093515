package runner

import (
	"context"
	"os"
	"path/filepath"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"gpurun/gpu"
	"gpurun/gpu/probe"
	"gpurun/runner/engine"
	"gpurun/runner/sched"
)

// counted is a prober that counts readings.
type counted struct {
	probe.Prober
	n atomic.Int64
}

func (c *counted) Read(ctx context.Context, q probe.Query) gpu.Observation {
	c.n.Add(1)
	return c.Prober.Read(ctx, q)
}

// A waiting run reads the GPUs at most once per poll, and only if a ready job waits for a GPU or one
// of the run's own jobs uses one. make bench parses this test's output.
func TestWaitingTakesFewSnapshots(t *testing.T) {
	tests := []struct {
		name, yaml, sim string
		most            int64
	}{
		{"waiting", "settings: {poll: 5s}\njobs:\n  - {name: a, run: x, gpu_memory: 60GiB}\n", "busy.yaml", 120},
		{"nothing-ready", "settings: {poll: 5s}\njobs:\n  - {name: a, run: x, gpus: 0}\n  - {name: b, run: x, gpu_memory: 60GiB, needs: [a]}\n", "8x80GiB", 0},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				sim := tt.sim
				if sim == "busy.yaml" {
					sim = filepath.Join(t.TempDir(), "busy.yaml")
					if err := os.WriteFile(sim, []byte("gpus: [{memory: 80GiB, count: 8, load: [{user: alice, memory: 70GiB, util: 90}]}]\n"), 0o666); err != nil {
						t.Fatal(err)
					}
				}
				w := newTestRun(t, tt.yaml, sim, func(engine.Launch) Play { return Play{For: time.Hour} })
				c := &counted{Prober: w.Prober}
				w.Prober = c
				done := make(chan struct{})
				go func() { w.run(); close(done) }()
				time.Sleep(time.Second) // virtual time, past the initial reading
				before := c.n.Load()
				time.Sleep(10 * time.Minute)
				got := c.n.Load() - before
				t.Logf("snapshots %d, at most %d", got, tt.most)
				if got > tt.most || got < tt.most/2 {
					t.Errorf("%d snapshots in ten minutes, want at most %d, and half of that at least", got, tt.most)
				}
				w.stops <- sched.StopRequested{All: true, Kill: true, Why: "test"}
				<-done
			})
		})
	}
}
