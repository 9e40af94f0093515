package runner

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"gpurun/gpu"
	"gpurun/gpu/probe"
	"gpurun/jobspec"
	"gpurun/runner/control"
	"gpurun/runner/engine"
	"gpurun/runner/sched"
	"gpurun/state"
	"gpurun/state/schema"
)

// memory is a ledger in memory.
type memory struct {
	mu     sync.Mutex // attempts are prepared outside the loop
	dir    string
	facts  []state.Fact
	n      int
	writes int
	full   func(f state.Fact) bool // whether there is no room for f
	gone   []string                // removed attempts
}

func (m *memory) Append(_ int, facts ...state.Fact) (int, error) {
	for i, f := range facts {
		if m.full != nil && m.full(f) {
			return i, errors.New("no space left")
		}
		m.facts = append(m.facts, f)
	}
	m.writes++
	return len(facts), nil
}

func (m *memory) Failure() error { return nil }

func (m *memory) NewAttempt(int, bool) (string, state.Slot, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.n++
	id := fmt.Sprintf("u%d", m.n)
	return id, state.Slot{}, os.MkdirAll(m.AttemptDir(0, id), 0o755)
}

func (m *memory) Watched(since time.Time) time.Time { return since }

func (m *memory) CurvePath(_ int, id string) string {
	return filepath.Join(m.dir, "metrics", id+".jsonl")
}

func (m *memory) ConfigCopy(_ int, path string) (string, os.FileMode) {
	return filepath.Join(m.dir, "locks", filepath.Base(path)), 0o644
}

func (m *memory) AttemptDir(_ int, id string) string { return filepath.Join(m.dir, "attempts", id) }
func (m *memory) RemoveAttempt(_ int, id string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.gone = append(m.gone, id)
}

func (m *memory) Began(int) time.Time              { return time.Time{} }
func (m *memory) LogPath(_ int, job string) string { return filepath.Join(m.dir, "logs", job+".log") }
func (m *memory) kinds(k state.Kind) (list []state.Fact) {
	for _, f := range m.facts {
		if f.Kind == k {
			list = append(list, f)
		}
	}
	return list
}

// ends returns "job: state" for each end, in the ledger's order.
func (m *memory) ends() (list []string) {
	for _, f := range m.kinds(state.KindEnd) {
		list = append(list, f.Job+": "+string(f.State))
	}
	return list
}

// testRun is a run in a synctest bubble.
type testRun struct {
	Config
	memory *memory
	engine *Sim
	stops  chan sched.StopRequested
	calls  chan *control.Call
}

func newTestRun(t *testing.T, yaml, sim string, play func(engine.Launch) Play) *testRun {
	t.Helper()
	dir := t.TempDir()
	file := filepath.Join(dir, "jobs.yaml")
	if err := os.WriteFile(file, []byte(yaml), 0o644); err != nil {
		t.Fatal(err)
	}
	b, err := jobspec.Load([]string{file}, jobspec.Options{})
	if err != nil {
		t.Fatal(err)
	}
	began := time.Now()
	now := func() sched.Now { return sched.Now{Boot: time.Since(began) + time.Hour, Wall: time.Now()} }
	w := &testRun{memory: &memory{dir: dir}, engine: NewSim(play), stops: make(chan sched.StopRequested, 4), calls: make(chan *control.Call)}
	w.Config = Config{Batch: b, Ledger: w.memory, Engine: engine.Opened{Engine: w.engine, Claims: w.engine, Trees: w.engine}, Stops: w.stops, Control: w.calls, Indexed: true, Now: now, Go: func(f func()) { go f() }}
	var pool *gpu.Pool
	if sim != "" {
		p, err := probe.OpenSim(sim, func() time.Duration { return now().Boot })
		if err != nil {
			t.Fatal(err)
		}
		w.Prober = p
		pool = gpu.NewPool(p.Devices(), gpu.Rules{MinGPUs: -1, MaxGPUs: -1, Pick: gpu.MostFree, UID: os.Getuid()})
	}
	w.Core = sched.New(b, state.NewHistory(), sched.Options{Sim: true})
	w.Core.Use(pool)
	return w
}

func (w *testRun) run() schema.Result {
	r := Run(context.Background(), w.Config)
	w.engine.Close()
	return r
}

// exits makes every attempt run for a second and exit with its job's code.
func exits(codes map[string]int) func(engine.Launch) Play {
	return func(l engine.Launch) Play {
		return Play{For: time.Second, Exit: codes[l.Job]}
	}
}

const chain = `
jobs:
  - {name: a, run: "true", gpus: 0}
  - {name: b, run: "true", gpus: 0, needs: [a]}
  - {name: c, run: "true", gpus: 0, needs: [b]}
  - {name: d, run: "true", gpus: 0}
`

func TestJobsRunInOrder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newTestRun(t, chain, "", exits(nil))
		r := w.run()
		if got := w.memory.ends(); !slices.Contains(got, "c: succeeded") || len(got) != 4 {
			t.Errorf("got %q", got)
		}
		if r.Final.Counts[state.Succeeded] != 4 || len(r.Failures) != 0 || r.Wall < 3*time.Second {
			t.Errorf("got %+v", r)
		}
		if len(w.memory.gone) != 4 {
			t.Errorf("attempts %q were removed, want 4", w.memory.gone)
		}
	})
}

func TestFailureBlocksOnlyDependents(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newTestRun(t, chain, "", exits(map[string]int{"b": 3}))
		r := w.run()
		c := r.Final.Counts
		if c[state.Succeeded] != 2 || c[state.Failed] != 1 || c[state.Blocked] != 1 {
			t.Errorf("got %v", c)
		}
		if len(r.Failures) != 1 || r.Failures[0].Job != "b" || *r.Failures[0].End.ExitCode != 3 || r.Failures[0].Blocked != 1 {
			t.Errorf("got %+v", r.Failures)
		}
	})
}

func TestStartIsRecordedBeforeLaunch(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var got engine.Launch
		var w *testRun
		w = newTestRun(t, `
jobs:
  - name: "train-{seed}"
    params: {seed: 007}
    run: python train.py --seed {seed} --gpu {gpu}
    env: {A: "{attempt}"}
    gpu_memory: 8GiB
`, "2x24GiB", func(l engine.Launch) Play {
			got = l
			if len(w.memory.kinds(state.KindStart)) != 1 {
				t.Error("the job was launched before its start was recorded")
			}
			return Play{For: time.Second}
		})
		w.Environ = []string{"HOME=/home/u", "A=outer", "MASTER_PORT=4"}
		w.run()
		if want := []string{"python train.py --seed 007 --gpu 0"}; !slices.Equal(got.Commands, want) {
			t.Errorf("got %q", got.Commands)
		}
		for _, want := range []string{"HOME=/home/u", "A=1", "CUDA_VISIBLE_DEVICES=0", "CUDA_DEVICE_ORDER=PCI_BUS_ID",
			"GPURUN_JOB=train-007", "GPURUN_UNI_ID=u1", "GPURUN_PARAM_SEED=007", "MASTER_PORT=4", "PYTHONUNBUFFERED=1"} {
			if !slices.Contains(engine.Layered(w.Environ, got.Env), want) {
				t.Errorf("environment lacks %s: %q", want, got.Env)
			}
		}
		start := w.memory.kinds(state.KindStart)[0]
		if start.Params["seed"] != "007" || start.Memory != 8*gpu.GiB || !slices.Equal(start.GPUs, []int{0}) {
			t.Errorf("got %+v", start)
		}
	})
}

// A retry appends to the log after a header line, and its failure is classified by its own part of
// the log.
func TestRetryAppendsToLog(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var headers []string
		w := newTestRun(t, `
jobs:
  - {name: a, run: "false", gpus: 0, retry: {max: 2, delay: 10s}}
`, "", func(l engine.Launch) Play {
			headers = append(headers, l.Header)
			f, err := os.OpenFile(l.Stdout, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o644)
			if err != nil {
				t.Error(err)
			}
			defer f.Close()
			f.WriteString(l.Header)
			if l.Attempt == 1 {
				f.WriteString("torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB\n")
			} else {
				fmt.Fprintf(f, "attempt %d\n", l.Attempt)
			}
			return Play{For: time.Second, Exit: 1}
		})
		old := w.memory.LogPath(0, "a")
		os.MkdirAll(filepath.Dir(old), 0o755)
		os.WriteFile(old, []byte("of an earlier run\n"), 0o644)
		r := w.run()
		var kinds []string
		for _, f := range w.memory.kinds(state.KindEnd) {
			kinds = append(kinds, f.ErrorType)
		}
		if want := []string{"oom", "exit", "exit"}; !slices.Equal(kinds, want) {
			t.Errorf("got %q, want %q", kinds, want)
		}
		if headers[0] != "" || !strings.HasPrefix(headers[2], "--- attempt 3, ") {
			t.Errorf("got headers %q", headers)
		}
		if b, _ := os.ReadFile(old + ".1"); string(b) != "of an earlier run\n" {
			t.Errorf("old log: got %q", b)
		}
		if len(r.Failures) != 1 || r.Failures[0].Tail[len(r.Failures[0].Tail)-1] != "attempt 3" {
			t.Errorf("got %+v", r.Failures)
		}
	})
}

// If a start cannot be recorded, nothing is launched.
func TestFullDiskStopsStarts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newTestRun(t, "settings: {max_concurrent: 1}\n"+chain[1:], "", exits(nil))
		starts := 0
		w.memory.full = func(f state.Fact) bool {
			if f.Kind == state.KindStart {
				starts++
			}
			return starts >= 2
		}
		r := w.run()
		if r.StateErr == nil || len(w.engine.Launched()) != 1 {
			t.Errorf("got %v, launched %q", r.StateErr, w.engine.Launched())
		}
		if got := w.memory.ends(); !slices.Equal(got, []string{"a: succeeded"}) {
			t.Errorf("got %q", got)
		}
	})
}

// Running jobs continue while the disk is full. Their ends are recorded once there is room.
func TestEndsWaitForRoom(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newTestRun(t, "jobs: [{name: a, run: x, gpus: 0}, {name: b, run: x, gpus: 0}]\n", "", func(l engine.Launch) Play {
			return Play{For: map[string]time.Duration{"a": time.Second, "b": time.Minute}[l.Job]}
		})
		began := time.Now()
		w.memory.full = func(f state.Fact) bool {
			since := time.Since(began)
			return since > 500*time.Millisecond && since < 30*time.Second
		}
		r := w.run()
		if got := w.memory.ends(); !slices.Equal(got, []string{"a: succeeded", "b: succeeded"}) {
			t.Errorf("got %q", got)
		}
		if r.StateErr == nil {
			t.Error("the full disk was not reported")
		}
	})
}

func TestStopDrainsOrInterruptsJobs(t *testing.T) {
	tests := []struct {
		name string
		stop sched.StopRequested
		want map[state.Phase]int
	}{
		{"drain", sched.StopRequested{Drain: true, Why: "Ctrl-C"}, map[state.Phase]int{state.Succeeded: 1, state.Pending: 3}},
		{"all", sched.StopRequested{All: true, Why: "SIGTERM"}, map[state.Phase]int{state.Interrupted: 1, state.Pending: 3}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newTestRun(t, "settings: {max_concurrent: 1}\n"+chain[1:], "", exits(nil))
				time.AfterFunc(500*time.Millisecond, func() { w.stops <- tt.stop })
				r := w.run()
				for p, n := range tt.want {
					if r.Final.Counts[p] != n {
						t.Errorf("%s: got %d, want %d (%v)", p, r.Final.Counts[p], n, r.Final.Counts)
					}
				}
				if got := r.Stopped; (got != "") != tt.stop.All {
					t.Errorf("Stopped: got %q", got)
				}
			})
		})
	}
}

// One step can both launch and stop an attempt, for example because the batch's hours end. The
// attempt must then still end.
func TestStopInLaunchStepEndsAttempt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newTestRun(t, "jobs: [{name: a, run: x, gpus: 0}]\n", "", func(engine.Launch) Play { return Play{For: time.Hour} })
		defer w.engine.Close()
		l := newLoop(context.Background(), w.Config)
		l.attempts.live["u"] = &attempt{launch: engine.Launch{Identity: engine.Identity{UniID: "u", Job: "a"}}}
		began := time.Now()
		for _, a := range []sched.Action{sched.Launch{UniID: "u"}, sched.End{UniID: "u", Why: state.WhyPreempted}} {
			l.do(a)
		}
		l.launch()
		for ev := range w.engine.Events() {
			if ev.Ended != nil {
				break
			}
		}
		if ran := time.Since(began); ran > time.Minute {
			t.Errorf("the attempt ran for %v", ran)
		}
	})
}

func TestRequestsGetReplies(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newTestRun(t, "settings: {max_concurrent: 1}\n"+chain[1:], "", func(engine.Launch) Play {
			return Play{For: time.Minute}
		})
		done := make(chan schema.Result)
		go func() { done <- w.run() }()
		synctest.Wait()
		if r := ask(w, control.Request{Op: control.OpStatus}); r.Status == nil || len(r.Status.Jobs) != 1 {
			t.Errorf("status: got %+v", r)
		}
		if r := ask(w, control.Request{Op: control.OpStop, Jobs: []string{"nobody"}}); r.Err == "" {
			t.Error("stopping an unknown job: no error")
		}
		if r := ask(w, control.Request{Op: control.OpDone, Jobs: []string{"d"}}); !slices.Equal(r.Done, []string{"d"}) {
			t.Errorf("done: got %+v", r)
		}
		silent := []string{"keeper 7 does not answer"}
		w.engine.emit(engine.Event{Silent: &silent})
		synctest.Wait()
		if r := ask(w, control.Request{Op: control.OpPause, Jobs: []string{"c"}}); len(r.Done) == 0 || len(r.Silent) > 0 {
			t.Errorf("pause, which needs no keeper: got %+v", r)
		}
		if r := ask(w, control.Request{Op: control.OpStop, Jobs: []string{"[ab]"}}); !slices.Equal(r.Done, []string{"a", "b"}) || !slices.Equal(r.Silent, silent) {
			t.Errorf("stop: got %+v", r)
		}
		r := <-done
		c := r.Final.Counts
		if c[state.Cancelled] != 2 || c[state.Blocked] != 1 || c[state.Succeeded] != 1 {
			t.Errorf("got %v", c)
		}
	})
}

func ask(w *testRun, r control.Request) control.Reply {
	reply := make(chan control.Reply, 1)
	w.calls <- &control.Call{Request: r, Reply: reply}
	return <-reply
}

func TestAdoptedJobContinuesAndRunsOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newTestRun(t, "jobs: [{name: a, run: x, gpus: 0}]\n", "", exits(nil))
		h := state.NewHistory()
		h.Apply(0, state.Fact{Kind: state.KindStart, Time: time.Now(), Job: "a", Key: w.Batch.Jobs[0].Key.String(), UniID: "old", Attempt: 1})
		w.Core = sched.New(w.Batch, h, sched.Options{})
		w.engine.Leave("old", time.Now().Add(-time.Hour), Play{For: time.Minute})
		r := w.run()
		if got := w.engine.Launched(); len(got) != 0 {
			t.Errorf("launched %q", got)
		}
		if r.Final.Counts[state.Succeeded] != 1 || !slices.Equal(w.memory.gone, []string{"old"}) {
			t.Errorf("got %v, removed %q", r.Final.Counts, w.memory.gone)
		}
	})
}

func TestAdoptedFailureIsReportedInFull(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newTestRun(t, "jobs: [{name: a, run: x}]\n", "1x24GiB", exits(nil))
		h := state.NewHistory()
		h.Apply(0, state.Fact{
			Kind: state.KindStart, Time: time.Now(), Job: "a", Key: w.Batch.Jobs[0].Key.String(), UniID: "old", Attempt: 1,
			Log: "/w/logs/a.log", GPUs: []int{0}, GPUUUIDs: []gpu.UUID{w.Prober.Devices()[0].UUID},
		})
		pool := gpu.NewPool(w.Prober.Devices(), gpu.Rules{MinGPUs: -1, MaxGPUs: -1, Pick: gpu.MostFree, UID: os.Getuid()})
		w.Core = sched.New(w.Batch, h, sched.Options{Sim: true})
		w.Core.Use(pool)
		w.engine.Leave("old", time.Now(), Play{For: time.Hour, Exit: 3})
		r := w.run()
		if len(r.Failures) != 1 || r.Failures[0].Log != "/w/logs/a.log" || r.GPUHours < 1 {
			t.Errorf("got %+v, %v GPU hours", r.Failures, r.GPUHours)
		}
	})
}

// Attempts that ended while no runner was alive count until their end. Time on a shared GPU counts
// once, as in gpurun history.
func TestGPUHoursOfDeadRunAreCounted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newTestRun(t, "defaults: {share: true, gpu_memory: 2GiB}\njobs: [{name: a, run: x}, {name: b, run: y}]\n", "1x24GiB", exits(nil))
		h, began := state.NewHistory(), time.Now().Add(-9*time.Hour)
		for i, ended := range []time.Duration{2 * time.Hour, 3 * time.Hour} {
			uni := w.Batch.Jobs[i].Name
			h.Apply(0, state.Fact{
				Kind: state.KindStart, Time: began, Job: uni, Key: w.Batch.Jobs[i].Key.String(), UniID: uni, Attempt: 1,
				GPUs: []int{0}, GPUUUIDs: []gpu.UUID{w.Prober.Devices()[0].UUID},
			})
			w.engine.LeaveEnded(uni, state.End{At: began.Add(ended)})
		}
		w.Core = sched.New(w.Batch, h, sched.Options{Sim: true})
		w.Core.Use(gpu.NewPool(w.Prober.Devices(), gpu.Rules{MinGPUs: -1, MaxGPUs: -1, Pick: gpu.MostFree, UID: os.Getuid()}))
		if r := w.run(); r.GPUHours != 3 || len(w.engine.Launched()) != 0 {
			t.Errorf("%v GPU hours, want 3; launched %q", r.GPUHours, w.engine.Launched())
		}
	})
}

func TestGPUPassesToNextJobWithoutPoll(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newTestRun(t, "settings: {poll: 60s}\njobs: [{name: a, run: x, gpu_memory: 20GiB}, {name: b, run: x, gpu_memory: 20GiB}]\n",
			"1x24GiB", exits(nil))
		if r := w.run(); r.Wall > 5*time.Second || r.Final.Counts[state.Succeeded] != 2 {
			t.Errorf("the run took %v and ended with %v, want at most 5s and two successes", r.Wall, r.Final.Counts)
		}
	})
}

func TestWarningsAreReportedOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newTestRun(t, "jobs: [{name: a, run: x, gpus: 0}, {name: b, run: x, gpus: 0}]\n", "", func(l engine.Launch) Play {
			return Play{For: time.Second, LeftOver: map[string]int{"a": 2}[l.Job]}
		})
		if got, want := w.run().Warnings, []string{"a: gpurun stopped 2 processes that the job left running"}; !slices.Equal(got, want) {
			t.Errorf("got %q, want %q", got, want)
		}
	})
}
