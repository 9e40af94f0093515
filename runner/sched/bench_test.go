package sched

import (
	"fmt"
	"testing"
	"time"

	"gpurun/gpu"
	"gpurun/jobspec"
	"gpurun/state"
)

// waitingBatch returns n jobs in eight classes that need one GPU each.
func waitingBatch(w *world, n int) {
	specs := make([]*jobspec.Spec, 8)
	for i := range specs {
		specs[i] = &jobspec.Spec{When: jobspec.OnSuccess, Request: gpu.Request{Min: 1, Max: 1, Memory: gpu.Bytes(4+i) * gpu.GiB, MaxUtil: 30}}
	}
	w.b.Jobs = make([]jobspec.Job, n)
	for i := range w.b.Jobs {
		w.b.Jobs[i] = jobspec.Job{ID: i, Name: fmt.Sprint("job-", i), Key: keyOf(fmt.Sprint(i), ""), Spec: specs[i%len(specs)], Queue: -1}
	}
}

// BenchmarkStep replaces one job after another on eight busy GPUs while many jobs wait: a job ends, its
// GPU is read and granted to the next job, which starts. The cost of a Step must not grow with the
// number of waiting jobs.
func BenchmarkStep(b *testing.B) {
	for _, n := range []int{100, 10_000, 1_000_000} {
		b.Run(fmt.Sprintf("waiting=%d", n), func(b *testing.B) {
			w := benchWorld(b, n)
			live := startAll(b, w)
			b.ReportAllocs()
			steps, left := 0, n
			for b.Loop() {
				if left--; left < 20 {
					b.StopTimer()
					w = benchWorld(b, n)
					live, left = startAll(b, w), n
					b.StartTimer()
				}
				uni := live[0]
				live = append(live[1:], drive(w, Ended{UniID: uni, End: state.End{At: w.now.Wall}}, &steps)...)
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(steps), "ns/step")
		})
	}
}

func benchWorld(b testing.TB, n int) *world {
	w := newWorld(b)
	w.gpus(8, 80*gpu.GiB)
	waitingBatch(w, n)
	w.open()
	return w
}

func startAll(b testing.TB, w *world) []string {
	steps := 0
	live := drive(w, Began{}, &steps)
	if len(live) != 8 {
		b.Fatalf("%d jobs started on 8 GPUs", len(live))
	}
	return live
}

// drive sends the core an event and answers its actions immediately. It returns the attempts that
// were launched.
func drive(w *world, ev Event, steps *int) []string {
	var live []string
	todo := []Event{ev}
	for len(todo) > 0 {
		ev := todo[0]
		todo = todo[1:]
		*steps++
		w.now.Boot += time.Millisecond
		for _, a := range w.core.Step(w.now, ev) {
			switch a := a.(type) {
			case Prepare:
				todo = append(todo, Prepared{Job: a.Job, Start: state.Fact{UniID: fmt.Sprint("u", a.Job, ".", a.Attempt)}})
			case Read:
				todo = append(todo, w.reading(a))
			case Launch:
				live = append(live, a.UniID)
				todo = append(todo, Started{UniID: a.UniID, PID: 1, PIDStart: 1})
			}
		}
	}
	return live
}

// BenchmarkWaiting measures a poll while many jobs wait for GPUs that other users hold.
func BenchmarkWaiting(b *testing.B) {
	for _, n := range []int{100, 10_000, 1_000_000} {
		b.Run(fmt.Sprintf("waiting=%d", n), func(b *testing.B) {
			w := newWorld(b)
			w.gpus(8, 80*gpu.GiB)
			for i := range w.load {
				w.load[i] = 79 * gpu.GiB
			}
			waitingBatch(w, n)
			w.open()
			steps := 0
			drive(w, Began{}, &steps)
			snap := w.reading(Read{})
			b.ReportAllocs()
			for b.Loop() {
				w.now.Boot += 5 * time.Second
				w.core.Step(w.now, snap)
			}
		})
	}
}

// BenchmarkNew measures a run in which all jobs are up to date.
func BenchmarkNew(b *testing.B) {
	for _, n := range []int{1_000, 100_000} {
		b.Run(fmt.Sprintf("jobs=%d", n), func(b *testing.B) {
			w := newWorld(b)
			waitingBatch(w, n)
			h := state.NewHistory()
			for i := range w.b.Jobs {
				h.Apply(0, state.Fact{Kind: state.KindEnd, Key: w.b.Jobs[i].Key.String(), Job: w.b.Jobs[i].Name, State: state.Succeeded, By: "done"})
			}
			for b.Loop() {
				c := New(w.b, h, Options{})
				if got := c.Step(w.now, Began{}); len(got) != 1 {
					b.Fatalf("got %v, want Finish", got)
				}
			}
		})
	}
}
