package runner

import (
	"fmt"
	"hash/fnv"
	"math/rand/v2"
	"os"
	"path/filepath"
	"testing"
	"testing/synctest"
	"time"

	"gpurun/runner/engine"
	"gpurun/state"
	"gpurun/state/schema"
)

// atHalfTime is a sink that keeps the first estimate after half of the run.
type atHalfTime struct {
	Wall time.Duration // how long an earlier run of the batch took; 0 if unknown
	at   time.Time
	end  *schema.End
}

func (*atHalfTime) Fact(int, state.Fact) {}
func (h *atHalfTime) Snapshot(s *schema.Status) {
	if h.end == nil && !h.at.IsZero() && s.Now.After(h.at) && s.Live.End != nil && s.Run.Alive {
		h.end = s.Live.End
	}
}

// A pastBatch is a job file, the simulated GPUs it runs on, and the durations of its jobs.
type pastBatch struct {
	name, yaml, gpus string
	takes            func(r *rand.Rand, job string) time.Duration
	logs             bool // jobs print their epochs
}

// minutes returns a duration in test minutes of 5 s each.
func minutes(m float64) time.Duration { return time.Duration(m * 5 * float64(time.Second)) }

// around returns a random duration near m minutes, with the given relative deviation.
func around(r *rand.Rand, m, part float64) time.Duration {
	return minutes(m * max(0.1, 1+part*r.NormFloat64()))
}

var pastBatches = []pastBatch{
	{"seeds", `jobs: [{name: "a-{seed}", matrix: {seed: 1..24}, run: "t {seed}", gpu_memory: 8GiB, gpus: 1, share: false}]`, "4x24GiB",
		func(r *rand.Rand, _ string) time.Duration { return around(r, 10, 0.1) }, false},
	{"two models", `jobs: [{name: "a-{m}-{seed}", matrix: {m: [small, large], seed: 1..12}, run: "t {m} {seed}", gpu_memory: 8GiB, share: false}]`, "3x24GiB",
		func(r *rand.Rand, job string) time.Duration {
			return around(r, map[bool]float64{true: 5, false: 20}[job[2] == 's'], 0.1)
		}, false},
	{"a grid with epochs in its logs", `jobs: [{name: "g-{lr}-{bs}", matrix: {lr: [1, 2, 3, 4], bs: [16, 32, 64, 128]}, run: "t {lr} {bs}", gpu_memory: 8GiB, share: false}]`, "4x24GiB",
		func(r *rand.Rand, _ string) time.Duration { return minutes(5 + 25*r.Float64()) }, true},
	{"one at a time", `jobs: [{name: "a-{seed}", matrix: {seed: 1..9}, run: "t {seed}", gpu_memory: 8GiB}]` + "\nsettings: {max_concurrent: 1}", "4x24GiB",
		func(r *rand.Rand, _ string) time.Duration { return around(r, 7, 0.3) }, false},
	{"stages", `jobs: [{name: prep, run: p, gpus: 0}, {name: "a-{seed}", needs: prep, matrix: {seed: 1..16}, run: "t {seed}", gpu_memory: 8GiB, share: false}, {name: sum, needs: "a-*", run: s, gpus: 0}]`, "4x24GiB",
		func(r *rand.Rand, job string) time.Duration {
			return map[string]time.Duration{"prep": minutes(3), "sum": minutes(2)}[job] + map[bool]time.Duration{true: around(r, 12, 0.2)}[job[0] == 'a']
		}, false},
	{"wide and narrow", `jobs: [{name: "w-{seed}", matrix: {seed: 1..4}, run: "w {seed}", gpus: 2, gpu_memory: 8GiB, share: false}, {name: "n-{seed}", matrix: {seed: 1..12}, run: "n {seed}", gpu_memory: 8GiB, share: false}]`, "4x24GiB",
		func(r *rand.Rand, job string) time.Duration {
			return around(r, map[byte]float64{'w': 15, 'n': 8}[job[0]], 0.15)
		}, false},
	{"shared GPUs", `jobs: [{name: "a-{seed}", matrix: {seed: 1..30}, run: "t {seed}", gpu_memory: 11GiB, share: true}]`, "2x24GiB",
		func(r *rand.Rand, _ string) time.Duration { return around(r, 6, 0.25) }, false},
	{"heavy tails", `jobs: [{name: "a-{c}", matrix: {c: 1..40}, run: "t {c}", gpu_memory: 8GiB, share: false}]`, "4x24GiB",
		func(r *rand.Rand, _ string) time.Duration { return minutes(2 + 6*r.ExpFloat64()) }, false},
	{"few long jobs with epochs", `jobs: [{name: "a-{seed}", matrix: {seed: 1..6}, run: "t {seed}", gpu_memory: 8GiB, share: false}]`, "4x24GiB",
		func(r *rand.Rand, _ string) time.Duration { return around(r, 90, 0.2) }, true},
	{"without GPUs", `jobs: [{name: "a-{seed}", matrix: {seed: 1..40}, run: "t {seed}", gpus: 0, cpus: 1}]` + "\nsettings: {max_concurrent: 3}", "",
		func(r *rand.Rand, _ string) time.Duration { return around(r, 4, 0.5) }, false},
}

// For at least eight of the ten batches, the estimate at half time is off by less than a fifth of
// the remaining time.
func TestEstimateAtHalfTimeIsAccurate(t *testing.T) {
	good := 0
	for i, past := range pastBatches {
		synctest.Test(t, func(t *testing.T) {
			play := func(h *atHalfTime) time.Duration {
				w := newTestRun(t, past.yaml, past.gpus, func(l engine.Launch) Play {
					name := fnv.New64()
					name.Write([]byte(l.Job))
					takes := past.takes(rand.New(rand.NewPCG(name.Sum64(), uint64(i))), l.Job)
					if past.logs {
						go epochs(t, l.Stdout, takes)
					}
					return Play{For: takes}
				})
				w.Batch.Settings.Poll, w.Batch.Settings.Learn = time.Second, true
				w.Sinks = []Sink{h}
				began := time.Now()
				if h.Wall > 0 {
					h.at = began.Add(h.Wall / 2)
				}
				w.run()
				return time.Since(began)
			}
			h := &atHalfTime{}
			h.Wall = play(h)
			began := time.Now()
			play(h)
			if h.end == nil || h.end.From == nil {
				t.Logf("%s: no estimate: %+v", past.name, h.end)
				return
			}
			end := h.end.From.Add(h.end.To.Sub(*h.end.From) / 2).Sub(began)
			off := (end - h.Wall).Seconds() / (h.Wall / 2).Seconds()
			t.Logf("%s: took %v, estimated %v at half time (off by %+.0f%% of the remaining time)", past.name, h.Wall.Round(time.Second), end.Round(time.Second), 100*off)
			if off > -0.2 && off < 0.2 {
				good++
			}
		})
	}
	if good < 8 {
		t.Errorf("%d of %d estimates are accurate, want at least 8", good, len(pastBatches))
	}
}

// epochs writes the log of a job with 20 epochs.
func epochs(t *testing.T, path string, takes time.Duration) {
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Error(err)
		return
	}
	for n := range 20 {
		time.Sleep(takes / 20)
		f, err := os.OpenFile(path, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o644)
		if err != nil {
			t.Error(err)
			return
		}
		fmt.Fprintf(f, "epoch %d/20: loss 0.1\n", n+1)
		f.Close()
	}
}

// stalls is a sink that keeps the estimates made while a job is stalled.
type stalls struct {
	ends  map[time.Time]time.Time
	other time.Time // when the last of the other jobs ended
}

func (s *stalls) Fact(_ int, f state.Fact) {
	if f.Kind == state.KindEnd && f.Job != "a-7" {
		s.other = f.Time
	}
}

func (s *stalls) Snapshot(st *schema.Status) {
	if e := st.Live.End; st.Run.Alive && e != nil && e.From != nil && len(e.Without) > 0 {
		s.ends[st.Now] = e.From.Add(e.To.Sub(*e.From) / 2)
	}
}

func TestStalledJobDoesNotMoveEstimate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newTestRun(t, `jobs: [{name: "a-{seed}", matrix: {seed: 1..32}, run: "t {seed}", gpu_memory: 8GiB, share: false, stall: {output: 20s}}]`, "4x24GiB", func(l engine.Launch) Play {
			if l.Job == "a-7" {
				go epochs(t, l.Stdout, 0)
				return Play{For: time.Hour}
			}
			go epochs(t, l.Stdout, minutes(10))
			return Play{For: minutes(10)}
		})
		w.Batch.Settings.Poll, w.Batch.Settings.Learn = time.Second, true
		s := &stalls{ends: map[time.Time]time.Time{}}
		w.Sinks = []Sink{s}
		w.run()
		for at, end := range s.ends {
			if off := end.Sub(s.other).Abs(); at.Before(s.other) && off > max(s.other.Sub(at)/10, minutes(2)) {
				t.Errorf("%v before the end, the estimate is off by %v", s.other.Sub(at), off)
			}
		}
		if len(s.ends) < 50 {
			t.Errorf("got %d estimates, want at least 50", len(s.ends))
		}
	})
}

// An estimate that includes waiting jobs is wrong once the run is draining.
func TestEstimateOfAnotherPhaseIsNotShown(t *testing.T) {
	at := schema.Time(time.Unix(1e9, 0))
	f := estimate{end: &schema.End{From: at, To: at}, phase: schema.RunRunning}
	for phase, shown := range map[schema.RunPhase]bool{schema.RunRunning: true, schema.RunDraining: false} {
		st := &schema.Status{Run: &schema.Run{Alive: true, Phase: &phase}, Live: &schema.Live{}}
		if f.addTo(st); (st.Live.End != nil) != shown {
			t.Errorf("%s: got end %+v, want shown %v", phase, st.Live.End, shown)
		}
	}
}
