// Package forecast simulates a batch in virtual time. It gives the scheduler core the current state
// of the GPUs, and ends each job after its expected duration. It starts nothing and reads nothing;
// other users' processes and claims stay as they are.
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

// A Span is the time that one job occupies its GPUs, counted from the forecast's start.
type Span struct {
	Job        int
	GPUs       []int
	Memory     gpu.Bytes // reserved on each GPU
	Start, End time.Duration
	Running    bool // the job was already running
}

// A Forecast is the outcome of a simulated batch.
type Forecast struct {
	Spans    []Span // in order of start
	Wall     time.Duration
	GPUTime  time.Duration // summed over GPUs; time on a shared GPU counts once
	Never    int           // number of jobs that never start
	Why      string        // why the first such job does not start
	Work     time.Duration // summed over GPUs; a job on a shared GPU counts in proportion to its memory
	Longest  time.Duration // duration of the longest chain of jobs that run one after another
	Capacity int           // number of GPUs
}

// Bound returns a lower bound on the time that any order of the jobs would take.
func (f *Forecast) Bound() time.Duration {
	return max(f.Work/time.Duration(max(f.Capacity, 1)), f.Longest)
}

// A Config describes the state that a forecast starts from.
type Config struct {
	Batch *jobspec.Batch
	Core  *sched.Core // not yet begun
	Pool  *gpu.Pool   // the core's; nil without GPUs
	Now   sched.Now
	Seen  gpu.Observation             // a reading of all GPUs
	Takes func(job int) time.Duration // how long a job takes
	Hangs func(uniID string) bool     // whether a running attempt never ends; nil if none does
}

// stuck is how long a simulation continues while no job runs or starts. More than a week includes
// all opening hours.
const stuck = 8 * 24 * time.Hour

// idle replaces stuck if an attempt hangs: the forecast does not wait for that attempt.
const idle = time.Hour

// simulation simulates the core's environment: time, GPUs and attempts.
type simulation struct {
	Config
	now         sched.Now
	queue       []sched.Event
	ends        []end // in order of time
	wake        time.Duration
	grants      map[int]gpu.Grant // by job: grants of attempts being prepared
	attempts    int               // number of attempts so far
	spans       []Span
	unchanged   bool          // nothing has changed since the last reading of all GPUs
	opens       time.Duration // when closed hours open, which changes that; 0 for never
	readPending bool          // the core waits for a reading of all GPUs
	over        bool
	hangs       bool                       // some attempt never ends
	released    map[gpu.UUID]time.Duration // when a job last left each GPU
}

// An end is a scheduled end of an attempt.
type end struct {
	at    time.Duration
	uniID string
	span  int
}

// Simulate simulates the batch until every job has ended or no more can start.
func Simulate(c Config) *Forecast {
	w := &simulation{Config: c, now: c.Now, grants: map[int]gpu.Grant{}, released: map[gpu.UUID]time.Duration{}}
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
			w.refresh()
		}
	}
	return w.result()
}

// pass advances the clock.
func (w *simulation) pass(to time.Duration) {
	if d := to - w.now.Boot; d > 0 {
		w.now.Boot, w.now.Wall = to, w.now.Wall.Add(d)
	}
	if w.opens > 0 && w.now.Boot >= w.opens {
		w.unchanged = false
	}
}

// end ends the attempt that is due first.
func (w *simulation) end() {
	e := w.ends[0]
	w.ends = w.ends[1:]
	w.pass(e.at)
	s := &w.spans[e.span]
	s.End = w.now.Boot - w.Now.Boot
	w.unchanged = false
	for _, d := range w.devices() {
		if slices.Contains(s.GPUs, d.Index) {
			w.released[d.UUID] = w.now.Boot
		}
	}
	w.send(sched.Ended{UniID: e.uniID, Good: true, End: state.End{At: w.now.Wall, Elapsed: s.End - s.Start}})
	w.refresh()
}

// refresh sends the core the reading of all GPUs that it waits for, if the reading can show something
// new.
func (w *simulation) refresh() {
	if w.readPending && !w.unchanged && !w.over {
		w.send(w.reading(sched.Read{}))
	}
}

func (w *simulation) devices() []gpu.Device {
	if w.Pool == nil {
		return nil
	}
	return w.Pool.Devices()
}

// send sends the core an event, and then the results of the actions that it returns.
func (w *simulation) send(ev sched.Event) {
	w.queue = append(w.queue, ev)
	for len(w.queue) > 0 {
		ev := w.queue[0]
		w.queue = w.queue[1:]
		for _, a := range w.Core.Step(w.now, ev) {
			w.do(a)
		}
	}
}

func (w *simulation) do(a sched.Action) {
	switch a := a.(type) {
	case sched.Prepare:
		w.grants[a.Job] = a.Grant
		w.attempts++
		w.queue = append(w.queue, sched.Prepared{Job: a.Job, Start: state.Fact{UniID: fmt.Sprint("forecast.", w.attempts)}})
	case sched.Launch:
		w.run(a.UniID, a.Job, w.grants[a.Job], w.Takes(a.Job), false)
		w.queue = append(w.queue, sched.Started{UniID: a.UniID, PID: 1, PIDStart: 1})
	case sched.Adopt:
		s := &a.Attempt.Start
		takes := sched.Unknown
		if a.Job >= 0 {
			takes = w.Takes(a.Job)
		}
		if w.Hangs != nil && w.Hangs(s.UniID) {
			w.hangs = true
		} else {
			w.run(s.UniID, a.Job, s.Grant(), max(takes-w.now.Wall.Sub(s.Time), 0), true)
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

// run schedules the end of an attempt that starts now.
func (w *simulation) run(uniID string, job int, g gpu.Grant, takes time.Duration, running bool) {
	at := w.now.Boot - w.Now.Boot
	w.spans = append(w.spans, Span{Job: job, GPUs: g.Indices, Memory: g.Memory, Start: at, End: at + takes, Running: running})
	e := end{w.now.Boot + takes, uniID, len(w.spans) - 1}
	// Attempts that end at the same time do so in order of start.
	i := sort.Search(len(w.ends), func(i int) bool { return w.ends[i].at > e.at })
	w.ends = slices.Insert(w.ends, i, e)
}

// handOver is how long after an attempt's end readings of its GPUs are answered. The core
// reads them in quick succession for less time than that.
const handOver = time.Minute

// read answers a reading only if it can show something new. Answering every reading, once a second,
// would make the forecast of a week take a minute.
func (w *simulation) read(r sched.Read) {
	if len(r.UUIDs) == 0 {
		if w.readPending = w.unchanged; !w.readPending {
			w.queue = append(w.queue, w.reading(r))
		}
		return
	}
	for _, id := range r.UUIDs {
		if at, ok := w.released[id]; ok && w.now.Boot-at <= handOver {
			w.queue = append(w.queue, w.reading(r))
			return
		}
	}
}

// reading returns a reading of other users' use of the GPUs, which the forecast assumes to be
// constant.
func (w *simulation) reading(r sched.Read) sched.Event {
	o := sched.Observed{Observation: w.Seen, Quick: len(r.UUIDs) > 0 && !r.Processes}
	o.At, o.Wishes, o.Readings = w.now.Boot, nil, slices.Clone(w.Seen.Readings)
	if len(r.UUIDs) > 0 {
		o.Readings = slices.DeleteFunc(o.Readings, func(g gpu.Reading) bool { return !slices.Contains(r.UUIDs, g.UUID) })
	} else {
		w.unchanged, w.readPending, w.opens = true, false, w.Core.Opens(w.now)
	}
	if o.Host != nil {
		h := *o.Host
		h.At, o.Host = h.At.Add(w.now.Boot-w.Seen.At), &h
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
