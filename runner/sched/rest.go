package sched

import (
	"cmp"
	"math"
	"slices"
	"time"

	"gpurun/gpu"
	"gpurun/jobspec"
	"gpurun/state"
)

// Remaining is the rest of a run, to be simulated in virtual time while the run continues. It
// shares no mutable state with the run.
type Remaining struct {
	Batch   *jobspec.Batch // the jobs that are running or can start, in the run's order
	Known   [][]float32    // by job: how many seconds the most similar past jobs took
	Open    []state.Attempt
	Stalled map[string]string // names of jobs with stalled attempts, by uni_id
	Pool    *gpu.Pool         // nil without GPUs
	Seen    gpu.Observation   // claims, wishes and processes of other runs and users
	Now     Now
	Cluster bool // a cluster decides when jobs start

	opts Options
}

// Core returns a core for the remaining jobs. Its run has not begun yet.
func (r *Remaining) Core() *Core {
	h := state.NewHistory()
	for i := range r.Open {
		h.Open[r.Open[i].Start.UniID] = &r.Open[i]
	}
	c := New(r.Batch, h, r.opts)
	c.Use(r.Pool)
	return c
}

// Remaining returns the rest of the run. seen is the latest reading of all GPUs.
func (c *Core) Remaining(now Now, seen gpu.Observation) *Remaining {
	c.now = now
	c.readEstimates()
	r := &Remaining{
		Batch: &jobspec.Batch{Files: c.b.Files, Queues: c.b.Queues, Settings: c.b.Settings}, Stalled: map[string]string{}, Now: now, Cluster: c.opts.Elsewhere,
		opts: Options{CPUs: c.opts.CPUs, Memory: c.opts.Memory, Sim: c.opts.Sim, UID: c.opts.UID, Run: c.opts.Run, Zone: c.opts.Zone},
	}
	s := &r.Batch.Settings
	s.Learn, s.Breaker, s.MaxWait, s.Order = false, 0, 0, "" // the jobs are already in the run's order
	ids, at := c.remainingJobs(), map[int32]int32{}
	for i, id := range ids {
		at[id] = int32(i)
	}
	for _, id := range ids {
		j, spec := c.b.Jobs[id], *c.spec(id)
		spec.Request, spec.Priority, spec.DefaultMemory, spec.LeastMemory, spec.Prune = c.request(id), 0, false, false, jobspec.Prune{}
		j.ID, j.Spec, j.Needs = len(r.Batch.Jobs), &spec, nil
		for _, n := range c.b.Jobs[id].Needs {
			if i, left := at[n]; left {
				j.Needs = append(j.Needs, i)
			}
		}
		slices.Sort(j.Needs)
		r.Batch.Jobs, r.Known = append(r.Batch.Jobs, j), append(r.Known, c.known(id))
	}
	for i, a := range c.live.all {
		if a.job < 0 || a.start.IsZero() || a.queued {
			continue
		}
		start := state.Fact{
			Kind: state.KindStart, Time: a.start, Job: a.name, Key: c.b.Jobs[a.job].Key.String(), UniID: a.uniID, Attempt: int(a.n),
			GPUs: a.grant.Indices, GPUUUIDs: a.grant.UUIDs, Memory: a.grant.Memory,
		}
		r.Open = append(r.Open, state.Attempt{Start: start, Seq: int64(i + 1), Running: &state.Fact{PID: a.pid}, Ledger: a.file})
		if a.watch.LastReport() != "" {
			r.Stalled[a.uniID] = a.name
		}
	}
	if c.pool != nil {
		r.Pool, r.Seen = c.pool.Fresh(), seen.Without(func(p *gpu.Process) bool { return p.Attempt != "" }) // attempts may have ended since
	}
	return r
}

// remainingJobs returns the jobs that are running or can start, in order.
func (c *Core) remainingJobs() (ids []int32) {
	in := make([]bool, len(c.jobs))
	starts := !c.sealed() && !c.paused
	for _, id := range c.graph.order {
		j := &c.jobs[id]
		in[id] = j.own > 0 || starts && j.phase.open() && !j.paused &&
			!slices.ContainsFunc(c.b.Jobs[id].Needs, func(n int32) bool { return !c.jobs[n].phase.over() && c.jobs[n].phase != unselected && !in[n] })
		if in[id] {
			ids = append(ids, id)
		}
	}
	slices.SortFunc(ids, func(a, b int32) int { return cmp.Compare(c.ranks[a], c.ranks[b]) })
	return ids
}

// known returns the past durations of the most similar jobs: those that differ only in their seed
// or, if there are none, those with the same command, those with the same number of GPUs, or all
// jobs of the batch.
func (c *Core) known(id int32) []float32 {
	if g := c.seedGroup(id); g != nil && len(g.Seconds) > 0 {
		return slices.Clone(g.Seconds)
	}
	for _, of := range [][]float32{c.usage.commands[c.template(id)], c.usage.widths[c.spec(id).Request.Min]} {
		if len(of) > 0 {
			return slices.Clip(of)
		}
	}
	return slices.Clip(c.usage.seconds)
}

// Mean returns the mean of the durations above a threshold, and their relative spread. Both are 0
// if there are none.
func Mean(seconds []float32, longer time.Duration) (mean time.Duration, spread float64) {
	sum, squares, n := 0.0, 0.0, 0.0
	for _, s := range seconds {
		if float64(s) > longer.Seconds() {
			sum, squares, n = sum+float64(s), squares+float64(s)*float64(s), n+1
		}
	}
	if n == 0 || sum == 0 {
		return 0, 0
	}
	m := sum / n
	return time.Duration(m * float64(time.Second)), math.Sqrt(max(0, squares/n-m*m)) / m
}
