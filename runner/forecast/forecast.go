// Package forecast plays a batch in virtual time: the core that a run has, on GPUs as they
// are now, with jobs that take what they are expected to take. It starts nothing and reads
// nothing; everybody else's processes and claims stay as they are.
package forecast

import (
	"fmt"
	"slices"
	"sort"
	"time"

	"gpurun/gpu"
	"gpurun/jobspec"
	"gpurun/runner/sched"
	"gpurun/state"
)

// A Stay is one job of the forecast. Times count from its beginning.
type Stay struct {
	Job        int
	GPUs       []int
	Memory     gpu.Bytes // set aside on each
	Start, End time.Duration
	Running    bool // it was running already
}

// A Forecast is how a batch goes.
type Forecast struct {
	Stays    []Stay // in the order of their starts
	Wall     time.Duration
	GPUTime  time.Duration // of all GPUs together; that of a shared one counts once
	Never    int           // how many jobs do not start
	Why      string        // the reason for the first of them
	Work     time.Duration // of all GPUs together, those of a shared one by their part of its memory
	Longest  time.Duration // the longest chain of jobs that wait for each other
	Capacity int           // number of GPUs
}

// Bound returns what no order of the jobs could be quicker than.
func (f *Forecast) Bound() time.Duration {
	return max(f.Work/time.Duration(max(f.Capacity, 1)), f.Longest)
}

// A Config is what a forecast starts from.
type Config struct {
	Batch *jobspec.Batch
	Core  *sched.Core // that has not begun
	Pool  *gpu.Pool   // the core's; nil without
	Now   sched.Now
	Seen  gpu.Observation             // a reading of all GPUs
	Takes func(job int) time.Duration // how long a job takes
	Find  func(*state.Attempt) int    // the job of an attempt that is running already, or -1
	Hangs func(uniID string) bool     // whether an attempt that is running never ends; nil for none
}

// stuck is how long nothing may start while nothing runs: a week has every opening hour.
const stuck = 8 * 24 * time.Hour

// idle is how long that may take while an attempt hangs, which nothing waits for.
const idle = time.Hour

// world is what surrounds the core.
type world struct {
	Config
	now   sched.Now
	queue []sched.Event
	ends  []end // in the order of their times
	wake  time.Duration
	given map[int]gpu.Grant // by job: of attempts being prepared
	made  int               // attempts so far
	stays []Stay
	calm  bool // nothing has changed since all GPUs were read
	owed  bool // an answer to a reading of all GPUs
	over  bool
	hangs bool                       // some attempt does not end
	left  map[gpu.UUID]time.Duration // when a job left it
}

// An end is the end of an attempt that is to come.
type end struct {
	at    time.Duration
	uniID string
	stay  int
}

// Play plays the batch to its end.
func Play(c Config) *Forecast {
	w := &world{Config: c, now: c.Now, given: map[int]gpu.Grant{}, left: map[gpu.UUID]time.Duration{}}
	w.send(sched.Began{})
	for began := w.now.Boot; !w.over; {
		switch {
		case len(w.ends) > 0 && (w.wake == 0 || w.ends[0].at <= w.wake):
			w.end()
			began = w.now.Boot
		case w.wake == 0 || len(w.ends) == 0 && (w.wake > began+stuck || w.hangs && w.wake > began+idle):
			w.over = true
		default:
			w.pass(w.wake)
			w.wake = 0
			w.send(sched.Woken{})
		}
	}
	return w.result()
}

// pass lets time pass.
func (w *world) pass(to time.Duration) {
	if d := to - w.now.Boot; d > 0 {
		w.now.Boot, w.now.Wall = to, w.now.Wall.Add(d)
	}
}

// end ends the attempt that ends first, and has the core see what it left.
func (w *world) end() {
	e := w.ends[0]
	w.ends = w.ends[1:]
	w.pass(e.at)
	s := &w.stays[e.stay]
	s.End = w.now.Boot - w.Now.Boot
	w.calm = false
	for _, d := range w.devices() {
		if slices.Contains(s.GPUs, d.Index) {
			w.left[d.UUID] = w.now.Boot
		}
	}
	w.send(sched.Ended{UniID: e.uniID, Good: true, End: state.End{At: w.now.Wall, Elapsed: s.End - s.Start}})
	if w.owed && !w.over {
		w.send(w.reading(sched.Read{}))
	}
}

func (w *world) devices() []gpu.Device {
	if w.Pool == nil {
		return nil
	}
	return w.Pool.Devices()
}

// send sends the core one event, and then the answers to what it does.
func (w *world) send(ev sched.Event) {
	w.queue = append(w.queue, ev)
	for len(w.queue) > 0 {
		ev := w.queue[0]
		w.queue = w.queue[1:]
		for _, a := range w.Core.Step(w.now, ev) {
			w.do(a)
		}
	}
}

func (w *world) do(a sched.Action) {
	switch a := a.(type) {
	case sched.Prepare:
		w.given[a.Job] = a.Grant
		w.made++
		w.queue = append(w.queue, sched.Prepared{Job: a.Job, Start: state.Fact{UniID: fmt.Sprint("forecast.", w.made)}})
	case sched.Launch:
		w.stay(a.UniID, a.Job, w.given[a.Job], w.Takes(a.Job), false)
		w.queue = append(w.queue, sched.Started{UniID: a.UniID, PID: 1, PIDStart: 1})
	case sched.Adopt:
		s := &a.Attempt.Start
		job := w.Find(&a.Attempt)
		takes := sched.Unknown
		if job >= 0 {
			takes = w.Takes(job)
		}
		if w.Hangs != nil && w.Hangs(s.UniID) {
			w.hangs = true
		} else {
			w.stay(s.UniID, job, s.Grant(), max(takes-w.now.Wall.Sub(s.Time), 0), true)
		}
		w.queue = append(w.queue, sched.Started{UniID: s.UniID, PID: 1, PIDStart: 1})
	case sched.Read:
		w.read(a)
	case sched.Wake:
		w.wake = a.At
	case sched.Finish:
		w.over = true
	}
}

// stay has an attempt run for some time.
func (w *world) stay(uniID string, job int, g gpu.Grant, takes time.Duration, running bool) {
	at := w.now.Boot - w.Now.Boot
	w.stays = append(w.stays, Stay{Job: job, GPUs: g.Indices, Memory: g.Memory, Start: at, End: at + takes, Running: running})
	e := end{w.now.Boot + takes, uniID, len(w.stays) - 1}
	// Those that end together do so in the order of their starts.
	i := sort.Search(len(w.ends), func(i int) bool { return w.ends[i].at > e.at })
	w.ends = slices.Insert(w.ends, i, e)
}

// handOver is how long after an end the core reads a GPU in quick succession.
const handOver = time.Minute

// read answers a reading that can show something new. Others would: that jobs are where
// they are. Once a second, they would make a forecast of a week take a minute.
func (w *world) read(r sched.Read) {
	if len(r.UUIDs) == 0 {
		if w.owed = w.calm; !w.owed {
			w.queue = append(w.queue, w.reading(r))
		}
		return
	}
	for _, id := range r.UUIDs {
		if at, ok := w.left[id]; ok && w.now.Boot-at <= handOver {
			w.queue = append(w.queue, w.reading(r))
			return
		}
	}
}

// reading returns what everybody else has on the GPUs, now as at the beginning.
func (w *world) reading(r sched.Read) sched.Event {
	o := sched.Observed{Observation: w.Seen, Quick: len(r.UUIDs) > 0 && !r.Processes}
	o.At, o.Wishes, o.Readings = w.now.Boot, nil, slices.Clone(w.Seen.Readings)
	if len(r.UUIDs) > 0 {
		o.Readings = slices.DeleteFunc(o.Readings, func(g gpu.Reading) bool { return !slices.Contains(r.UUIDs, g.UUID) })
	} else {
		w.calm, w.owed = true, false
	}
	for i := range o.Readings {
		g := &o.Readings[i]
		if o.Quick {
			g.Listed, g.Processes = false, nil
		}
		g.Samples = slices.Clone(g.Samples)
		for k := range g.Samples {
			g.Samples[k].At += w.now.Boot - w.Seen.At
		}
	}
	return o
}
