package runner

import (
	"context"
	"slices"
	"sync"

	"gpurun/gpu"
	"gpurun/gpu/probe"
	"gpurun/runner/engine"
	"gpurun/runner/sched"
)

// reader takes GPU readings outside the loop, one at a time. Requests that arrive
// during a reading are merged into the next one.
type reader struct {
	prober probe.Prober
	engine engine.Engine
	asks   chan sched.Read
	done   sync.WaitGroup
}

func newReader(ctx context.Context, p probe.Prober, e engine.Engine, inbox chan<- sched.Event, start func(func())) *reader {
	r := &reader{prober: p, engine: e, asks: make(chan sched.Read, 64)}
	r.done.Add(1)
	start(func() {
		defer r.done.Done()
		r.run(ctx, inbox)
	})
	return r
}

func (r *reader) ask(a sched.Read) {
	select {
	case r.asks <- a:
	default: // 64 requests are waiting already; their answer serves this one too
	}
}

func (r *reader) wait() { r.done.Wait() }

func (r *reader) run(ctx context.Context, inbox chan<- sched.Event) {
	for {
		select {
		case <-ctx.Done():
			return
		case a := <-r.asks:
			q, quick := r.merge(a)
			ev := sched.Observed{Observation: r.prober.Read(ctx, q), Quick: quick}
			var warnings []string
			if !quick {
				ev.Claims, warnings = r.engine.Others(ctx, ev.Readings)
			}
			select {
			case inbox <- withWarnings(ev, warnings):
			case <-ctx.Done():
				return
			}
		}
	}
}

// onGPU tells the engine which processes of an attempt are on the attempt's own GPUs.
func (l *loop) onGPU(r *gpu.Reading) {
	for _, p := range r.Processes {
		at := l.live[p.Attempt]
		if at == nil || p.Attempt == "" || at.onGPU[p.PID] || !slices.Contains(at.grant.UUIDs, r.UUID) {
			continue
		}
		if at.onGPU == nil {
			at.onGPU = map[int]bool{}
		}
		at.onGPU[p.PID] = true
		l.Engine.OnGPU(p.Attempt, []int{p.PID})
	}
}

// merge combines a with the requests that are waiting. A reading of all devices, or
// with processes, also answers requests for less.
func (r *reader) merge(a sched.Read) (q probe.Query, quick bool) {
	all := len(a.UUIDs) == 0
	q = probe.Query{UUIDs: append([]gpu.UUID(nil), a.UUIDs...), Processes: all || a.Processes}
	for {
		select {
		case b := <-r.asks:
			all = all || len(b.UUIDs) == 0
			q.Processes = q.Processes || all || b.Processes
			q.UUIDs = append(q.UUIDs, b.UUIDs...)
			continue
		default:
		}
		if all {
			q.UUIDs = nil
		}
		slices.Sort(q.UUIDs)
		q.UUIDs = slices.Compact(q.UUIDs)
		return q, !q.Processes
	}
}
