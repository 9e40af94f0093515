package runner

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"gpurun/gpu"
	"gpurun/runner/engine"
	"gpurun/state"
	"gpurun/state/schema"
)

// claimedHost is an engine on a host where theirs returns the claims of another user, alice.
type claimedHost struct {
	*Sim
	theirs func() []gpu.Claim
	fails  func(n int) error // the error of the n-th claim, counted from 1

	mu        sync.Mutex
	claimed   []string
	made      atomic.Int32 // len(claimed), for theirs, which is called with and without mu held
	withdrawn []string
}

func (r *claimedHost) Claim(_ context.Context, uniID, _ string, _ gpu.Grant) ([]gpu.Claim, []string, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.claimed = append(r.claimed, uniID)
	r.made.Add(1)
	if r.fails != nil {
		if err := r.fails(len(r.claimed)); err != nil {
			return nil, nil, err
		}
	}
	return r.theirs(), []string{"claims: something odd"}, nil
}

func (r *claimedHost) Withdraw(uniID string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.withdrawn = append(r.withdrawn, uniID)
}

func (r *claimedHost) Others(context.Context, []gpu.Reading) ([]gpu.Claim, []string) {
	return r.theirs(), nil
}

const oneGPUJob = "settings: {poll: 5s}\njobs: [{name: a, run: x, gpu_memory: 20GiB}]\n"

// If another run claims the GPU first, the attempt is not charged, and the job runs once the GPU is
// free.
func TestLostRaceIsRetriedWithoutCharge(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var header string
		w := newTestRun(t, oneGPUJob, "1x24GiB", func(l engine.Launch) Play {
			header = l.Header
			return Play{For: time.Second}
		})
		began := time.Now()
		r := &claimedHost{Sim: w.engine}
		r.theirs = func() []gpu.Claim {
			since := time.Since(began)
			if r.made.Load() == 0 || since > 30*time.Second { // alice claims at the same time as this run
				return []gpu.Claim{}
			}
			return []gpu.Claim{{UUID: w.Prober.Devices()[0].UUID, User: "alice", Job: "train", Attempt: "hers"}}
		}
		w.Engine = engine.Opened{Engine: r, Claims: r, Trees: r}
		why := &lastWhy{}
		w.Sinks = []Sink{why}
		res := w.run()
		if !slices.Equal(r.claimed, []string{"u1", "u2"}) || !slices.Equal(r.withdrawn, []string{"u1"}) {
			t.Errorf("claimed %q and withdrew %q, want [u1 u2] and [u1]", r.claimed, r.withdrawn)
		}
		starts := w.memory.kinds(state.KindStart)
		if len(starts) != 1 || starts[0].Attempt != 1 || starts[0].UniID != "u2" || header != "" {
			t.Errorf("got starts %+v and header %q, want attempt 1 as u2 without a header", starts, header)
		}
		if res.Wall < 30*time.Second || res.Wall > 40*time.Second {
			t.Errorf("the run took %v, want 30s to 40s", res.Wall)
		}
		if want := "needs 20 GiB; GPU 0: held by alice, train"; why.text != want {
			t.Errorf("reason for waiting: got %q, want %q", why.text, want)
		}
		if !slices.Equal(res.Warnings, []string{"claims: something odd"}) {
			t.Errorf("got warnings %q, want one", res.Warnings)
		}
	})
}

// While a start is prepared, the claims read for it become outdated. Using them instead of newer
// ones would grant a GPU that alice has claimed in the meantime.
func TestOlderClaimsDoNotReplaceNewer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newTestRun(t, `settings: {poll: 1m}
jobs:
  - {name: a, run: x, gpu_memory: 20GiB}
  - {name: c, run: x, gpus: 0}
  - {name: b, run: x, gpu_memory: 20GiB, needs: c}
`, "2x24GiB", func(engine.Launch) Play { return Play{For: 2100 * time.Millisecond} })
		began := time.Now()
		r := &claimedHost{Sim: w.engine}
		r.theirs = func() []gpu.Claim {
			claims := []gpu.Claim{}
			if since := time.Since(began); since >= time.Second && since < 20*time.Second {
				claims = append(claims, gpu.Claim{UUID: w.Prober.Devices()[1].UUID, User: "alice", Job: "train", Attempt: "hers"})
			}
			if r.made.Load() == 1 && time.Since(began) < time.Second {
				time.Sleep(2 * time.Second) // a slow preparation
			}
			return claims
		}
		time.AfterFunc(time.Second, func() {
			w.engine.mu.Lock()
			defer w.engine.mu.Unlock()
			w.engine.emit(engine.Event{ClaimsChanged: true})
		})
		w.Engine = engine.Opened{Engine: r, Claims: r, Trees: r}
		w.run()
		if got := w.memory.ends(); len(got) != 3 || len(r.withdrawn) > 0 {
			t.Errorf("got ends %q and withdrawn claims %q, want three ends and no withdrawal", got, r.withdrawn)
		}
	})
}

// lastWhy is a sink that keeps the latest reason why the first job in the queue waits.
type lastWhy struct{ text string }

func (*lastWhy) Fact(int, state.Fact) {}
func (l *lastWhy) Snapshot(s *schema.Status) {
	if s.Live.Next != nil {
		l.text = s.Live.Next.Text
	}
}

func TestFailedClaimDoesNotFailJob(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newTestRun(t, oneGPUJob, "1x24GiB", exits(nil))
		r := &claimedHost{Sim: w.engine, theirs: func() []gpu.Claim { return []gpu.Claim{} }}
		r.fails = func(n int) error {
			if n < 4 {
				return errors.New("no room")
			}
			return nil
		}
		w.Engine = engine.Opened{Engine: r, Claims: r, Trees: r}
		log := w.memory.LogPath(0, "a")
		if err := errors.Join(os.MkdirAll(filepath.Dir(log), 0o755), os.WriteFile(log, []byte("of an earlier run"), 0o644)); err != nil {
			t.Fatal(err)
		}
		res := w.run()
		if b, err := os.ReadFile(log + ".1"); string(b) != "of an earlier run" {
			t.Errorf("old log: got %q, %v", b, err)
		}
		if got := w.memory.ends(); !slices.Equal(got, []string{"a: succeeded"}) || len(r.claimed) != 4 || res.Wall > 10*time.Second {
			t.Errorf("got ends %q after %d claims and %v, want one success after 4 claims and at most 10s", got, len(r.claimed), res.Wall)
		}
		if len(w.memory.gone) != 4 {
			t.Errorf("attempts %q were removed, want all four", w.memory.gone)
		}
	})
}
