package runner

import (
	"fmt"
	"slices"
	"sync"
	"time"

	"gpurun/gpu"
	"gpurun/gpu/probe"
	"gpurun/runner/sched"
)

// readings takes GPU readings outside the loop, one at a time. Requests during a reading are merged
// into the next one.
type readings struct {
	done sync.WaitGroup
	busy bool
	next probe.Query // what to read next
	some bool        // a request is pending
	all  bool        // a request is for all devices

	readingClaims bool // a reading of claims and wishes is in progress
	again         bool // claims or wishes have changed during it

	latest time.Time // start of the reading whose claims the core uses
}

// stale reports whether a reading of claims and wishes that began at began is older than the one
// the core uses. If it is not, stale records that the core uses it from now on. A GPU reading takes
// longer than a reading of claims alone, so they may end out of order.
func (r *readings) stale(began time.Time) bool {
	if began.Before(r.latest) {
		return true
	}
	r.latest = began
	return false
}

// read requests a reading. A reading of all devices, or with processes, also serves requests for
// less.
func (l *loop) read(a sched.Read) {
	if l.Prober == nil {
		return
	}
	r := &l.readings
	r.some, r.all = true, r.all || len(a.UUIDs) == 0
	r.next.Processes = r.next.Processes || r.all || a.Processes
	r.next.UUIDs = append(r.next.UUIDs, a.UUIDs...)
	if !r.busy {
		l.take()
	}
}

// take starts the next reading.
func (l *loop) take() {
	r := &l.readings
	q := r.next
	slices.Sort(q.UUIDs)
	if q.UUIDs = slices.Compact(q.UUIDs); r.all {
		q.UUIDs = nil
	}
	r.next, r.some, r.all, r.busy = probe.Query{}, false, false, true
	r.done.Add(1)
	l.offload(func() func() {
		defer r.done.Done()
		ev := sched.Observed{Observation: l.Prober.Read(l.ctx, q), Quick: !q.Processes}
		var warnings []string
		var began time.Time
		if q.Processes {
			began = time.Now()
			ev.Claims, warnings = l.Engine.Claims.Others(l.ctx, ev.Readings)
			ev.Quarantines, ev.Wishes = l.Engine.Claims.Quarantines(), l.Engine.Claims.Wishes()
		}
		if l.Host != nil {
			rules, more := l.Host(ev.Users())
			ev.Host, warnings = rules, append(warnings, more...)
		}
		return func() {
			if r.busy = false; r.some {
				l.take()
			}
			l.warn(warnings...)
			l.warnOfGPUs(ev.Observation)
			if l.attribute(ev.Observation); q.UUIDs == nil && ev.Err == "" {
				l.foresight.seen = ev.Observation
			}
			if ev.Claims != nil && r.stale(began) {
				ev.Claims, ev.Wishes = nil, nil
			}
			l.step(ev)
		}
	})
}

// readClaims reads the claims and wishes of other runs outside the loop, one reading at a time.
func (l *loop) readClaims() {
	r := &l.readings
	if r.again = r.readingClaims; r.readingClaims {
		return
	}
	r.readingClaims = true
	l.offload(func() func() {
		began := time.Now()
		claims, warnings := l.Engine.Claims.Others(l.ctx, nil)
		ev := sched.ClaimsChanged{Claims: claims, Wishes: l.Engine.Claims.Wishes()}
		return func() {
			l.warn(warnings...)
			if claims == nil {
				r.again = false
			} else if !r.stale(began) {
				l.step(ev)
			}
			if r.readingClaims = false; r.again {
				l.readClaims()
			}
		}
	})
}

// attribute finds the attempt of each process in a reading, and passes the engine the processes
// that are on their attempt's own GPUs. It attributes no process on a device that a gpurun inside
// the attempt has claimed for its own jobs.
func (l *loop) attribute(s gpu.Observation) {
	for i := range s.Readings {
		id := s.Readings[i].UUID
		for k := range s.Readings[i].Processes {
			p := &s.Readings[i].Processes[k]
			if p.Attempt == "" {
				p.Attempt = l.Engine.Trees.Attempt(p.PID)
			}
			at := l.attempts.live[p.Attempt]
			switch {
			case at == nil:
			case !slices.Contains(at.launch.Grant.UUIDs, id):
				if l.nested(p.Attempt, id, s.Claims) {
					p.Attempt = ""
				}
			case !at.onGPU[p.PID]:
				if at.onGPU == nil {
					at.onGPU = map[int]bool{}
				}
				at.onGPU[p.PID] = true
				l.Engine.Trees.OnGPU(p.Attempt, []int{p.PID})
			}
		}
	}
}

// nested reports whether a gpurun inside an attempt has claimed a device.
func (l *loop) nested(uniID string, id gpu.UUID, claims []gpu.Claim) bool {
	return slices.ContainsFunc(claims, func(c gpu.Claim) bool {
		return c.UUID == id && c.PID > 0 && l.Engine.Trees.Attempt(c.PID) == uniID
	})
}

// quarantine publishes a quarantine. If that fails, the quarantine still applies to this run.
func (l *loop) quarantine(a sched.Quarantine) {
	l.offload(func() func() {
		err := l.Engine.Claims.Quarantine(a.Quarantine)
		return func() {
			if err != nil {
				l.say(fmt.Sprintf("the quarantine of GPU %d applies only to this run: %v", a.Index, err))
				return
			}
			l.step(sched.Published{UUID: a.UUID})
		}
	})
}

// warnOfGPUs warns when a device stops answering or readings start to fail.
func (l *loop) warnOfGPUs(s gpu.Observation) {
	w := &l.warnings
	if s.Err != "" && !w.blind {
		l.say("cannot read the GPUs, so no more jobs start on them until the readings work again: " + s.Err)
	}
	w.blind = s.Err != ""
	for _, r := range s.Readings {
		switch lost := w.lost[r.UUID]; {
		case r.Err != "" && !lost:
			w.lost[r.UUID] = true
			l.say(fmt.Sprintf("GPU %s does not answer, so no job starts on it until it does: %s", l.indexOf(r.UUID), r.Err))
		case r.Err == "" && lost:
			delete(w.lost, r.UUID)
			if r.Found != nil {
				r.UUID = r.Found.UUID
			}
			l.say(fmt.Sprintf("GPU %s answers again", l.indexOf(r.UUID)))
		}
	}
}

// indexOf returns a device's index, or its UUID if it has none.
func (l *loop) indexOf(id gpu.UUID) string {
	for _, d := range l.Prober.Devices() {
		if d.UUID == id {
			return fmt.Sprint(d.Index)
		}
	}
	return string(id)
}
