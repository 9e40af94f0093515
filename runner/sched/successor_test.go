package sched

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"gpurun/gpu"
	"gpurun/jobspec"
	"gpurun/state"
)

// elastic is a cluster with jobs a and b, which can have one to four GPUs; a runs on one. said has
// the core's answers but those that are only about time.
type elasticWorld struct {
	*world
	said []string
	load int // how busy a's GPU is; negative if that is unknown
}

func newElastic(t *testing.T) *elasticWorld {
	w := &elasticWorld{world: newWorld(t), load: 95}
	w.opts.Elsewhere, w.opts.Queues, w.opts.Survey = true, true, 30*time.Second
	w.b.Settings.Breaker = 3
	spec := jobspec.Spec{
		Request: gpu.Request{Min: 1, Max: 4}, Grace: 10 * time.Second, Retry: jobspec.Retry{Max: 0},
		Resize: jobspec.Resize{Up: 80, Down: 30, Signal: "USR1", Grace: time.Minute, Every: 10 * time.Minute},
	}
	w.job("a", "true", spec, "")
	w.log = func(line string) {
		if word, _, _ := strings.Cut(line, " "); word != "wake" {
			w.said = append(w.said, line)
		}
	}
	w.free = 4
	return w
}

// runs begins a run in which a has run on one GPU for a while.
func (w *elasticWorld) runs() {
	w.open()
	w.send(Began{})
	w.send(Started{UniID: "a.1", PID: 7, Host: "node1", Grant: &gpu.Grant{Indices: []int{0}}})
	if w.load >= 0 {
		w.send(Busy{"a.1", w.load})
	}
	w.said = nil
}

// succeeds lets a minute pass, after which a has a successor; ready says that it has its GPUs.
func (w *elasticWorld) succeeds(ready bool) {
	w.t.Helper()
	w.runs()
	w.wait(time.Minute)
	if w.unis["a"] != 2 || !w.live["a.2"] {
		w.t.Fatalf("there is no successor: %q", w.said)
	}
	w.send(Queued{UniID: "a.2", JobID: "18_0", Reason: "Priority"})
	if w.said = nil; ready {
		w.send(Ready{UniID: "a.2", Host: "node2", Grant: gpu.Grant{Indices: []int{0, 1, 2, 3}}})
	}
}

func (w *elasticWorld) says(want ...string) {
	w.t.Helper()
	if !slices.Equal(w.said, want) {
		w.t.Errorf("it said\n%s\nwant\n%s", strings.Join(w.said, "\n"), strings.Join(want, "\n"))
	}
	w.said = nil
}

func TestExpands(t *testing.T) {
	w := newElastic(t)
	w.runs()
	w.wait(59 * time.Second)
	w.says()
	w.wait(time.Second)
	w.says("survey for [0]", "prepare a attempt 2 with 4 GPUs after a.1", "launch a.2")
	w.send(Queued{UniID: "a.2", JobID: "18_0", Reason: "Priority"})
	if note := w.core.Snapshot(w.now).Running[0].Note; note != "to go on with 4 GPUs: queued 18_0: Priority" || w.core.Jobs(w.now)[0].Wait.Text != note {
		t.Errorf("it says %q and %+v", note, w.core.Jobs(w.now)[0].Wait)
	}
	w.says()
	w.send(Ready{UniID: "a.2", Host: "node2", Grant: gpu.Grant{Indices: []int{0, 1, 2, 3}}})
	w.says("save a.1 USR1, 1m0s")
	if note := w.core.Snapshot(w.now).Running[0].Note; note != "to go on with 4 GPUs on node2: it saves its work" {
		t.Errorf("it says %q", note)
	}
	w.wait(5 * time.Second)
	w.exit("a.1", Ended{Why: state.WhyResize, LogTo: 77})
	w.says("record end a.1 interrupted from 1 GPU to 4 after 1m5s", "record start a.2", "record queued a.2", "begin a.2")
	if start := w.ledger[len(w.ledger)-2].Fact; start.Attempt != 2 || len(start.GPUs) != 4 || start.LogFrom != 77 || start.Free != 1 {
		t.Errorf("the start is %+v", start)
	}
	w.counts(t, map[state.Phase]int{state.Running: 1})
	w.send(Started{UniID: "a.2", PID: 9, Host: "node2", Grant: &gpu.Grant{Indices: []int{0, 1, 2, 3}}})
	w.wait(time.Hour)
	w.exit("a.2", Ended{})
	w.says("record running a.2", "record end a.2 succeeded after 1h0m0s", "finish")
}

// Whatever else becomes of the old attempt, its successor never begins.
func TestNoSuccessor(t *testing.T) {
	stop := func(ev StopRequested) func(w *elasticWorld) { return func(w *elasticWorld) { w.send(ev) } }
	ends := func(e Ended) func(w *elasticWorld) { return func(w *elasticWorld) { w.exit("a.1", e) } }
	for _, tt := range []struct {
		name   string
		ready  bool
		happen func(w *elasticWorld)
		want   state.Phase // of the job in the end
		old    bool        // the old attempt goes on
	}{
		{"succeeds while it is queued", false, ends(Ended{}), state.Succeeded, false},
		{"succeeds while it is ready", true, ends(Ended{}), state.Succeeded, false},
		{"shows its outputs in its grace", true, ends(Ended{Why: state.WhyResize, Whole: true}), state.Succeeded, false},
		{"fails while it is ready", true, ends(Ended{ExitCode: 1}), state.Failed, false},
		{"does not catch the signal", true, func(w *elasticWorld) { w.send(Declined{"a.1", "none catches USR1"}) }, "", true},
		{"is not ready in time", false, func(w *elasticWorld) { w.wait(5 * time.Minute) }, "", true},
		{"is refused", false, func(w *elasticWorld) { w.exit("a.2", Ended{ExitCode: -1, Err: "slurm: no such partition"}) }, "", true},
		{"dies on its node", true, func(w *elasticWorld) { w.exit("a.2", Ended{ExitCode: -1, Lost: true, Void: true}) }, "", true},
		{"is paused", true, func(w *elasticWorld) { w.send(PauseRequested{All: true}) }, "", true},
		{"drains", false, stop(StopRequested{Drain: true, Why: "Ctrl-C"}), "", true},
		{"drains while it is ready", true, stop(StopRequested{Drain: true, Why: "Ctrl-C"}), "", true},
		{"is cancelled", true, stop(StopRequested{Jobs: []int{0}}), state.Cancelled, true},
		{"is stopped", true, stop(StopRequested{All: true, Why: "SIGTERM"}), state.Interrupted, true},
	} {
		t.Run(tt.name, func(t *testing.T) {
			w := newElastic(t)
			w.succeeds(tt.ready)
			tt.happen(w)
			if w.done != nil {
				t.Fatal("the run is over before its successor is")
			}
			ended := slices.ContainsFunc(w.said, func(s string) bool { return s == "kill a.2 resize" }) || !w.live["a.2"]
			begun := slices.ContainsFunc(w.said, func(s string) bool { return strings.HasPrefix(s, "begin") || s == "record start a.2" })
			if !ended || begun {
				t.Fatalf("it said %q", w.said)
			}
			if w.live["a.2"] {
				w.exit("a.2", Ended{ExitCode: -1, Lost: true, Void: true})
			}
			if !slices.Contains(w.said, "discard a.2") || len(w.core.successors) > 0 {
				t.Errorf("something is left of it: %q", w.said)
			}
			if tt.old && w.live["a.1"] && tt.want == "" {
				w.exit("a.1", Ended{})
				tt.want = state.Succeeded
			} else if tt.old {
				w.exit("a.1", Ended{ExitCode: -1, Signal: "SIGTERM"})
			}
			if p := w.core.Phase(0); p != tt.want || w.done == nil {
				t.Errorf("a is %s, want %s; the run is over: %v", p, tt.want, w.done != nil)
			}
		})
	}
}

// If the successor is gone when the old attempt has saved its work, the job starts again with its
// least.
func TestSuccessorLost(t *testing.T) {
	w := newElastic(t)
	w.succeeds(true)
	w.exit("a.2", Ended{ExitCode: -1, Lost: true, Void: true, Err: "its node went down"})
	w.says("save a.1 USR1, 1m0s", "warn a keeps its 1 GPU, although resize is set: it could not go on with 4 GPUs: its node went down", "discard a.2")
	w.exit("a.1", Ended{Why: state.WhyResize})
	w.says("record end a.1 interrupted after 1m0s", "prepare a attempt 2", "record start a.3", "launch a.3")
	if w.core.live.all[0].asks != 1 {
		t.Errorf("it asks for %d GPUs", w.core.live.all[0].asks)
	}
}

// What keeps a job from growing, and how far it may.
func TestExpandsWithin(t *testing.T) {
	for _, tt := range []struct {
		name string
		set  func(w *elasticWorld)
		want int // GPUs; 0 if it does not grow
	}{
		{"all", func(*elasticWorld) {}, 4},
		{"fewer are free", func(w *elasticWorld) { w.free = 2 }, 2},
		{"as many as it has are free", func(w *elasticWorld) { w.free = 1 }, 0},
		{"its GPU is not busy enough", func(w *elasticWorld) { w.load = 80 }, 0},
		{"how busy it is is unknown", func(w *elasticWorld) { w.load = -1 }, 4},
		{"somebody waits", func(w *elasticWorld) { w.others = true }, 0},
		{"no answer", func(w *elasticWorld) { w.free = -1 }, 0},
		{"max_gpus counts both", func(w *elasticWorld) { w.b.Settings.MaxGPUs = 4 }, 3},
		{"max_gpus has no room for both", func(w *elasticWorld) { w.b.Settings.MaxGPUs = 2 }, 0},
		{"max_gpus_total counts both", func(w *elasticWorld) { w.opts.MaxTotal = 3 }, 2},
		{"max_concurrent has no room", func(w *elasticWorld) { w.b.Settings.MaxConcurrent = 1 }, 0},
		{"max_submitted has no room", func(w *elasticWorld) { w.opts.MaxOpen = 1 }, 0},
		{"no resize", func(w *elasticWorld) { w.b.Jobs[0].Spec.Resize = jobspec.Resize{} }, 0},
		{"resized in place", func(w *elasticWorld) { w.opts.Survey = 0 }, 0},
		{"another is queued", func(w *elasticWorld) { w.job("b", "true", jobspec.Spec{Request: gpu.Request{Min: 1, Max: 1}}, "") }, 0},
		{"another needs no GPU", func(w *elasticWorld) { w.job("b", "true", jobspec.Spec{}, "") }, 4},
	} {
		t.Run(tt.name, func(t *testing.T) {
			w := newElastic(t)
			tt.set(w)
			w.runs()
			w.wait(2 * time.Minute)
			got := 0
			for _, s := range w.said {
				_, _ = fmt.Sscanf(s, "prepare a attempt 2 with %d GPUs", &got)
			}
			if got != tt.want {
				t.Errorf("it grows to %d GPUs, want %d: %q", got, tt.want, w.said)
			}
		})
	}
}

// A successor gives way to another job of its run, unless the old attempt saves its work already.
// It is tried again once resize.every is over.
func TestSuccessorGivesWay(t *testing.T) {
	w := newElastic(t)
	w.b.Settings.MaxGPUs = 5
	w.job("b", "true", jobspec.Spec{Request: gpu.Request{Min: 1, Max: 1}, Retry: jobspec.Retry{Max: 1, Delay: 3 * time.Minute}}, "")
	w.open()
	w.send(Began{})
	for i, uni := range []string{"a.1", "b.1"} {
		w.send(Started{UniID: uni, PID: 7 + i, Host: "node1", Grant: &gpu.Grant{Indices: []int{i}}})
	}
	w.exit("b.1", Ended{ExitCode: 1})
	w.send(Busy{"a.1", 95})
	w.wait(time.Minute)
	if !w.live["a.2"] {
		t.Fatalf("a does not grow: %q", w.said)
	}
	w.said = nil
	w.wait(2 * time.Minute) // b is ready again
	w.says("kill a.2 resize")
	w.exit("a.2", Ended{ExitCode: -1, Lost: true, Void: true})
	w.says("discard a.2", "prepare b attempt 2", "record start b.2", "launch b.2")
	w.exit("b.2", Ended{})
	w.said = nil
	w.wait(7 * time.Minute) // how busy it is has not been heard for long, which keeps it from nothing
	w.says()
	w.wait(time.Minute)
	if !w.live["a.3"] {
		t.Errorf("a does not try again: %q", w.said)
	}
}

// A run that is killed knows nothing of a successor; one that has its start takes it on, with what
// it asks for.
func TestSuccessorAdopted(t *testing.T) {
	for _, begun := range []bool{false, true} {
		w := newElastic(t)
		w.b.Settings.MaxGPUs = 6
		w.succeeds(true)
		if begun {
			w.exit("a.1", Ended{Why: state.WhyResize})
		}
		w.said = nil
		w.open()
		w.send(Began{})
		if begun {
			w.says("adopt a.2")
		} else {
			w.says("adopt a.1")
		}
		w.send(Started{UniID: w.adopt[0], PID: 9, Adopted: true, Host: "node2", Grant: &gpu.Grant{Indices: []int{0, 1, 2, 3}}})
		if n := w.core.ordered(); n != 4 && begun || n != 1 && !begun {
			t.Errorf("begun %v: it asks for %d GPUs", begun, n)
		}
	}
}

// Where it is not known how busy the GPUs are, that is waited for.
func TestBusyUnknown(t *testing.T) {
	w := newElastic(t)
	w.load = -1
	w.runs()
	w.wait(119 * time.Second)
	w.says()
	w.wait(time.Second)
	w.says("survey for [0]", "prepare a attempt 2 with 4 GPUs after a.1", "launch a.2")
}

// A job that hardly uses its GPUs goes on with its least if somebody waits, and there is room for
// that beside it.
func TestShrinks(t *testing.T) {
	for _, tt := range []struct {
		name string
		set  func(w *elasticWorld)
		want bool
	}{
		{"somebody waits", func(w *elasticWorld) { w.others = true }, true},
		{"a job of its run waits", func(w *elasticWorld) { w.job("b", "true", jobspec.Spec{Request: gpu.Request{Min: 2, Max: 2}}, "") }, true},
		{"nobody waits", func(*elasticWorld) {}, false},
		{"nothing is free", func(w *elasticWorld) { w.others, w.free = true, 0 }, false},
		{"it is busy enough", func(w *elasticWorld) { w.others, w.load = true, 30 }, false},
		{"how busy it is is unknown", func(w *elasticWorld) { w.others, w.load = true, -1 }, false},
		{"max_gpus has no room for both", func(w *elasticWorld) { w.others, w.b.Settings.MaxGPUs = true, 4 }, false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			w := newElastic(t)
			w.load, w.free = 10, 2
			w.succeeded()
			tt.set(w)
			w.open()
			w.send(Began{})
			four := gpu.Grant{Indices: []int{0, 1, 2, 3}}
			w.send(Started{UniID: "a.2", PID: 9, Adopted: true, Host: "node2", Grant: &four})
			if w.load >= 0 {
				w.send(Busy{"a.2", w.load})
			}
			w.wait(11 * time.Minute)
			if w.load >= 0 {
				w.send(Busy{"a.2", w.load})
			}
			w.wait(time.Minute)
			if w.live["a.3"] != tt.want {
				t.Fatalf("it shrinks: %v, want %v: %q", w.live["a.3"], tt.want, w.said)
			}
			if !tt.want {
				return
			}
			w.wait(3 * time.Minute) // it does not give way to who it is for
			w.said = nil
			w.send(Ready{UniID: "a.3", Host: "node1", Grant: gpu.Grant{Indices: []int{1}}})
			w.exit("a.2", Ended{Why: state.WhyResize, ExitCode: 1})
			w.says("save a.2 USR1, 1m0s", "record end a.2 interrupted exit 1 from 4 GPUs to 1 after 15m0s", "record start a.3", "begin a.3")
		})
	}
}

// succeeded leaves a ledger in which a runs on four GPUs.
func (w *elasticWorld) succeeded() {
	w.t.Helper()
	load, free := w.load, w.free
	w.load, w.free = 95, 4
	w.succeeds(true)
	w.exit("a.1", Ended{Why: state.WhyResize})
	w.send(Started{UniID: "a.2", PID: 9, Host: "node2", Grant: &gpu.Grant{Indices: []int{0, 1, 2, 3}}})
	w.load, w.free = load, free
}
