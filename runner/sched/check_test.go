package sched

import (
	"errors"
	"fmt"
	"reflect"
	"slices"

	"gpurun/gpu"
	"gpurun/jobspec"
	"gpurun/state"
)

// check verifies the invariants that hold between two Steps. Tests call it after each Step. Once jobs
// have been reopened, a running job may follow jobs that it did not wait for.
func (c *Core) check(reopened bool) error {
	return errors.Join(c.checkCounts(), c.checkLive(), c.checkGPUs(), c.checkHands(), c.checkQueues(reopened), c.checkJobs(reopened), c.checkHeld(), c.checkHealth(), c.checkGathering(), c.checkUsage(), c.checkMoves(), c.checkStanding(), c.checkPruning())
}

func (c *Core) checkCounts() error {
	var counts [phaseCount]int
	total := 0
	for i := range c.jobs {
		if p := c.jobs[i].phase; p != unselected {
			counts[p]++
			total++
		}
	}
	if counts != c.counts || total != c.total {
		return fmt.Errorf("counts are %v of %d, should be %v of %d", c.counts, c.total, counts, total)
	}
	if len(c.ended) > 0 {
		return fmt.Errorf("%d ends have not been processed", len(c.ended))
	}
	return nil
}

// checkLive compares the totals with the sums over live attempts.
func (c *Core) checkLive() error {
	n, onGPUs, beyond := 0, 0, gpu.HostResources{}
	own := map[int32]int16{}
	for _, a := range c.live.all {
		n++
		beyond.Add(a.grant.HostResources, 1)
		if len(a.grant.UUIDs) > 0 && c.pool != nil {
			onGPUs++
		}
		if a.job >= 0 {
			own[a.job]++
		}
		if a.uniID != "" && c.live.byID[a.uniID] != a || a.uniID == "" && c.live.preparing(int(a.job)) != a {
			return fmt.Errorf("attempt %q of %s cannot be found", a.uniID, a.name)
		}
		if a.uniID != "" && c.h.Open[a.uniID] == nil {
			return fmt.Errorf("attempt %q of %s is live but not open in the history", a.uniID, a.name)
		}
		if own[a.job] > 1 && a.job >= 0 && !a.adopted {
			return fmt.Errorf("%s is running twice", a.name)
		}
	}
	if n != len(c.live.byID)+c.counts[preparing] || len(c.live.byID) != len(c.h.Open) && !(n == 0 && !c.begun) {
		return fmt.Errorf("%d live, %d by id, %d prepared, %d open", n, len(c.live.byID), c.counts[preparing], len(c.h.Open))
	}
	if l := &c.live; beyond != l.reserved || onGPUs != l.onGPUs {
		return fmt.Errorf("cores and memory %v/%v, on GPUs %d/%d", l.reserved, beyond, l.onGPUs, onGPUs)
	}
	for i := range c.jobs {
		if c.jobs[i].own != own[int32(i)] {
			return fmt.Errorf("%s has %d live attempts, counted %d", c.name(int32(i)), own[int32(i)], c.jobs[i].own)
		}
	}
	return errors.Join(c.checkPools(), c.checkLimits())
}

// checkPools compares the pool units of live attempts with the totals and with the pools' sizes,
// which do not apply to attempts started by an earlier run.
func (c *Core) checkPools() error {
	used, adopted := map[string]int{}, false
	for _, a := range c.live.all {
		used[a.pool.Name] += a.pool.N
		adopted = adopted || a.adopted
	}
	for name, n := range c.live.pools {
		if n != used[name] || !adopted && n > c.poolSize(name) {
			return fmt.Errorf("pool %s counts %d units in use, want %d; its size is %d", name, n, used[name], c.poolSize(name))
		}
	}
	return nil
}

// checkLimits checks the limits, which do not apply to attempts started by an earlier run.
func (c *Core) checkLimits() error {
	for _, a := range c.live.all {
		if a.adopted {
			return nil
		}
	}
	if most := c.b.Settings.MaxConcurrent; most > 0 && len(c.live.all) > most && !c.opts.Queues {
		return fmt.Errorf("%d jobs are running, max_concurrent is %d", len(c.live.all), most)
	}
	if c.opts.CPUs > 0 && c.live.reserved.CPUs > c.opts.CPUs {
		return fmt.Errorf("%d cores are reserved of %d", c.live.reserved.CPUs, c.opts.CPUs)
	}
	if c.opts.Memory > 0 && c.live.reserved.RAM > c.opts.Memory {
		return fmt.Errorf("%v of host memory is reserved of %v", c.live.reserved.RAM, c.opts.Memory)
	}
	return nil
}

// checkHands checks that the claim of an ended attempt is kept only for an attempt that is being
// prepared, or in a hand-over that a job waits for.
func (c *Core) checkHands() error {
	for _, h := range c.hands {
		if h.claim == "" && !h.open || h.claim != "" && (c.live.byID[h.claim] != nil || c.finished && h.until == 0) {
			return fmt.Errorf("the claim of %q is kept on %s", h.claim, h.id)
		}
		passes := h.claim == "" || h.until > 0 || c.waiter.id >= 0 && c.inHandOver(h.id)
		for _, m := range c.moves {
			passes = passes || slices.Contains(m.ids, h.id)
		}
		for _, a := range c.live.all {
			passes = passes || a.uniID == "" && slices.Contains(a.grant.UUIDs, h.id)
		}
		if !passes {
			return fmt.Errorf("the claim of %s on %s is kept without a successor", h.claim, h.id)
		}
	}
	return nil
}

// checkGPUs checks that two attempts hold a device only if both share it, and never beyond its
// memory or any of their slots.
func (c *Core) checkGPUs() error {
	if c.pool == nil {
		return nil
	}
	type use struct {
		n      int
		alone  bool
		slots  int // the minimum of the attempts' slots; 0 for none
		memory gpu.Bytes
	}
	uses := map[gpu.UUID]*use{}
	for _, a := range c.live.all {
		if a.adopted {
			continue
		}
		for _, id := range a.grant.UUIDs {
			if uses[id] == nil {
				uses[id] = &use{}
			}
			u := uses[id]
			u.n++
			u.alone = u.alone || !a.grant.Share
			u.memory += a.grant.Memory
			if n := a.grant.Slots; n > 0 && (u.slots == 0 || n < u.slots) {
				u.slots = n
			}
			if u.slots > 0 && u.n > u.slots {
				return fmt.Errorf("%s is held by %d attempts, with slots: %d", id, u.n, u.slots)
			}
			if u.alone && u.n > 1 {
				return fmt.Errorf("%s is held by %d attempts", id, u.n)
			}
		}
		if spec := c.spec(a.job); a.uniID == "" && (len(a.grant.UUIDs) < spec.Request.Min || len(a.grant.UUIDs) > max(spec.Request.Max, spec.Request.Min)) { // a user may change the request of a running job
			return fmt.Errorf("%s was granted %d GPUs, but requests %d to %d", a.name, len(a.grant.UUIDs), spec.Request.Min, spec.Request.Max)
		}
	}
	for _, d := range c.pool.Devices() {
		if u := uses[d.UUID]; u != nil && u.memory > d.Total {
			return fmt.Errorf("%v are granted on %s, which has %v", u.memory, d.UUID, d.Total)
		}
	}
	return nil
}

// checkGathering checks that a GPU is gathered only once, for a job that waits or is being prepared on
// it.
func (c *Core) checkGathering() error {
	g := &c.gathering
	seen := map[gpu.UUID]bool{}
	for _, h := range g.claims {
		switch {
		case seen[h.id]:
			return fmt.Errorf("%s is gathered twice", h.id)
		case !slices.Contains(g.IDs, h.id) && !slices.Contains(c.live.unclaimed(), h.id) && !c.refill && !c.finished:
			return fmt.Errorf("%s is gathered, but no job needs it", h.id)
		}
		seen[h.id] = true
	}
	if w := c.waiter.id; (g.On || len(g.IDs) > 0) && (w < 0 || !g.On || len(g.IDs) > c.request(w).Min) {
		return fmt.Errorf("%d GPUs are gathered for job %d", len(g.IDs), w)
	}
	return nil
}

// checkQueues checks that a queue has at most one live attempt, and that the queue has no earlier
// unfinished job.
func (c *Core) checkQueues(reopened bool) error {
	for q := range c.queues {
		busy, adopted := 0, false
		for _, a := range c.live.all {
			if a.job < 0 || c.b.Jobs[a.job].Queue != int32(q) {
				continue
			}
			busy++
			adopted = adopted || a.adopted
			if !a.adopted && !reopened && c.queueHead(int32(q)) != a.job {
				return fmt.Errorf("queue %q: %s is running but is not its head", c.b.Queues[q], a.name)
			}
		}
		if busy > 1 && !adopted {
			return fmt.Errorf("queue %q: %d jobs are running", c.b.Queues[q], busy)
		}
	}
	return nil
}

// checkHeld checks that a group is held only after enough failures and no success, and is listed
// once.
func (c *Core) checkHeld() error {
	n := 0
	for key, g := range c.breaker.groups {
		if g.hold == nil {
			continue
		}
		if n++; g.worked || g.hold.count < c.b.Settings.Breaker || !slices.Contains(c.breaker.held, key) {
			return fmt.Errorf("a group is held without enough failures, after a success, or unlisted: %+v", g.hold)
		}
	}
	if n != len(c.breaker.held) {
		return fmt.Errorf("%d groups are held, %d are listed", n, len(c.breaker.held))
	}
	return nil
}

// checkMoves checks that a job between two attempts is pending, and that the GPUs reserved for it
// are neither held nor offered.
func (c *Core) checkMoves() error {
	for i, m := range c.moves {
		if j := &c.jobs[m.job]; j.phase != pending && !j.phase.over() && j.phase != held || j.own > 0 {
			return fmt.Errorf("%s is being moved, but is %s with %d attempts", c.name(m.job), j.phase.public(), j.own)
		}
		if m.least < 1 || m.least < c.spec(m.job).Request.Min || len(m.ids) < m.least || len(m.ids) > c.spec(m.job).Request.Max || c.now.Boot >= m.began+handOverFor {
			return fmt.Errorf("%s: invalid move %+v at %v", c.name(m.job), m, c.now.Boot)
		}
		for _, a := range c.live.all {
			if both := shared(a.grant.UUIDs, m.ids[:m.least]); both != "" && !a.adopted {
				return fmt.Errorf("%s waits for %s, which %s holds", c.name(m.job), both, a.name)
			}
		}
		for _, h := range c.hands {
			if h.until > 0 && slices.Contains(m.ids[:m.least], h.id) {
				return fmt.Errorf("%s waits for %s, which is offered to %s", c.name(m.job), h.id, h.turn.Run)
			}
		}
		for _, o := range c.moves[:i] {
			if both := shared(o.ids, m.ids); both != "" || o.job == m.job {
				return fmt.Errorf("both %s and %s wait for %s", c.name(o.job), c.name(m.job), both)
			}
		}
	}
	return nil
}

func shared(a, b []gpu.UUID) gpu.UUID {
	for _, id := range a {
		if slices.Contains(b, id) {
			return id
		}
	}
	return ""
}

// checkHealth checks that a job is excused only a few times, and that only a device on which enough
// attempts died in a row is quarantined.
func (c *Core) checkHealth() error {
	h := &c.health
	for id, m := range h.jobs {
		if m.excused > maxExcused+1 || m.away && len(m.on) == 0 {
			return fmt.Errorf("%s is excused too often, or must move away from no device: %+v", c.name(id), m)
		}
	}
	for i, r := range h.series {
		again := slices.ContainsFunc(h.series[:i], func(o *series) bool { return o.id == r.id })
		if again || len(r.deaths) == 0 || len(r.deaths) > maxDeaths {
			return fmt.Errorf("%d deaths are listed on %s, or it is listed twice", len(r.deaths), r.id)
		}
	}
	for _, id := range h.resting {
		if h.signatures[id].why != "" {
			continue
		}
		i := slices.IndexFunc(h.series, func(r *series) bool { return r.id == id })
		if i < 0 || !enough(h.series[i].deaths) || c.now.Boot >= h.series[i].last+suspectFor {
			return fmt.Errorf("%s rests without enough deaths", id)
		}
	}
	return nil
}

// checkJobs checks that every job's phase agrees with its needs, its attempts and its queue.
func (c *Core) checkJobs(reopened bool) error {
	if !c.begun {
		return nil
	}
	for i := range c.jobs {
		if err := c.checkJob(int32(i), reopened); err != nil {
			return fmt.Errorf("%s (%s): %w", c.name(int32(i)), c.jobs[i].phase.public(), err)
		}
	}
	return nil
}

func (c *Core) checkJob(id int32, reopened bool) error {
	j := &c.jobs[id]
	if j.phase == unselected {
		return nil
	}
	active := j.phase == preparing || j.phase == running
	if active != (j.own > 0) {
		return fmt.Errorf("the job has %d live attempts", j.own)
	}
	unmet, bad, adopted := 0, false, false
	for _, n := range c.b.Jobs[id].Needs {
		switch p := c.jobs[n].phase; {
		case p == unselected && c.jobs[n].own > 0:
			unmet++
		case p == unselected:
			bad = bad || c.lacksNeed(id, n)
		case !p.over() && !(p == held && c.concluding), p == interrupted && !c.concluding:
			unmet++
		default:
			bad = bad || !p.good()
		}
	}
	for _, a := range c.live.all {
		adopted = adopted || a.job == id && a.adopted
	}
	if !j.phase.over() && !adopted && !j.gone && !c.finished && (unmet != int(j.unmet) || bad != j.bad) {
		return fmt.Errorf("the job has %d unmet needs, counted %d; bad needs: %v, counted %v", unmet, j.unmet, bad, j.bad)
	}
	when := c.spec(id).When
	met := unmet == 0 && (when == jobspec.Always || bad == (when == jobspec.OnFailure))
	if (j.phase == ready || active && !adopted && !j.gone && !reopened) && !met {
		return fmt.Errorf("the job may run although its needs do not allow it")
	}
	heldNeed := slices.ContainsFunc(c.b.Jobs[id].Needs, func(n int32) bool { return c.jobs[n].phase == held })
	switch isHeld := c.isHeld(id); {
	case isHeld && (j.phase == pending || j.phase == ready || j.phase == waiting), heldNeed && j.phase == pending && !c.anyway(id):
		return fmt.Errorf("the job is not held; its group is held: %v, a need is held: %v", isHeld, heldNeed)
	case j.phase == held && !isHeld && unmet == 0 && !c.concluding && c.exceedsAllocation(id) == nil && !c.health.exhausted(id):
		return fmt.Errorf("the job is held for no reason")
	}
	if j.phase == pending && c.draining == "" && met && j.held == 0 && !j.paused && c.turn(id) && !c.moving(id) {
		return fmt.Errorf("the job is pending for no reason")
	}
	return nil
}

// checkPruning checks that the points in memory are those in the ledger, so that the next run makes the
// same decisions, and that no job continues that should be pruned.
func (c *Core) checkPruning() error {
	if !c.begun {
		return nil
	}
	for i := range c.jobs {
		id := int32(i)
		if c.ruleOf(id).Metric == "" || c.jobs[i].gone {
			continue
		}
		var want state.Curve
		if r := c.last(id); r != nil && !c.jobs[i].anew {
			want = r.Points
		}
		for _, a := range c.live.all {
			if o := c.h.Open[a.uniID]; a.job == id && o != nil {
				if o.Start.Anew {
					want = nil
				}
				want = want.Add(o.Points...)
			}
		}
		if got := c.pruning.curves[id]; len(got)+len(want) > 0 && !reflect.DeepEqual(got, want) {
			return fmt.Errorf("%s has the points %v, but in the ledger %v", c.name(id), got, want)
		}
	}
	for _, a := range c.live.all {
		if !c.opts.NoPrune && !c.finished && !a.queued && a.stop == "" && a.job >= 0 && c.h.Open[a.uniID] != nil && !c.h.Open[a.uniID].Start.NoPrune && len(c.h.Open[a.uniID].Points) > 0 && !c.jobs[a.job].gone && c.behind(a) != "" {
			return fmt.Errorf("%s continues although %s", a.name, c.behind(a))
		}
	}
	return nil
}

// checkStanding checks the jobs in the queue of a cluster: exactly the paused ones are held there, and
// those that would not be submitted now are withdrawn. The cluster must also know the limits.
func (c *Core) checkStanding() error {
	if !c.begun {
		return nil
	}
	if c.opts.Queues && (c.limit != Limit{max(c.b.Settings.MaxConcurrent, 0), c.b.Settings.MaxGPUs}) {
		return fmt.Errorf("the cluster has the limits %+v", c.limit)
	}
	for _, a := range c.live.all {
		if !a.queued || a.stop != "" || c.finished {
			continue
		}
		if is := c.paused || a.job >= 0 && c.jobs[a.job].paused; !a.withdrawn && (c.unstartable(a) || a.onHold != is) {
			return fmt.Errorf("%s is queued; held: %v, paused: %v, must be withdrawn: %v", a.name, a.onHold, is, c.unstartable(a))
		}
	}
	return nil
}

// checkUsage checks that a ready job requests what the current usage statistics give.
func (c *Core) checkUsage() error {
	for i := range c.jobs {
		id := int32(i)
		if c.jobs[i].phase == ready && c.jobs[i].class.req != c.request(id) {
			return fmt.Errorf("%s is ready with the request %+v, want %+v", c.name(id), c.jobs[i].class.req, c.request(id))
		}
	}
	return nil
}
