package sched

import (
	"fmt"
	"strings"

	"gpurun/gpu"
	"gpurun/state"
)

// The consequences of health's findings are handled in Core, since they change jobs, their retries
// and published quarantines.

// examine quarantines devices with enough evidence against them.
func (c *Core) examine() {
	retriable := func(job int32, not []gpu.UUID) bool {
		p := c.jobs[job].phase
		return p >= pending && p <= waiting && c.canRunElsewhere(job, not)
	}
	for {
		v, ok := c.health.examine(c.now.Boot, c.live.started, retriable)
		if !ok {
			return
		}
		for _, job := range v.charged {
			if j := &c.jobs[job]; j.failures > 0 && !j.phase.over() && c.health.jobs[job].excused < maxExcused {
				j.failures--
				c.health.excuse(job)
			}
		}
		c.quarantine(v)
	}
}

// quarantineFromReading quarantines devices whose reading shows a fault.
func (c *Core) quarantineFromReading(seen gpu.Observation, quick bool) {
	found, cleared := c.health.observe(c.now.Boot, seen, quick)
	for _, v := range found {
		c.quarantine(v)
	}
	for _, job := range cleared {
		if c.jobs[job].phase == ready {
			c.makeReady(job)
		}
	}
}

// quarantine keeps this user's jobs off a device for a while.
func (c *Core) quarantine(v quarantineDecision) {
	q, begun := c.pool.Quarantine(c.now.Boot, c.now.Wall, v.id, v.why, v.evidence)
	if !begun {
		return
	}
	c.health.fresh = append(c.health.fresh, freshQuarantine{Quarantine: q})
	c.do(Quarantine{q})
	text := fmt.Sprintf("GPU %s is quarantined until %s: %s", c.pool.Label(v.id), gpu.Clock(q.Until, c.now.Wall), v.why)
	if len(v.evidence) > 0 {
		text += " (" + strings.Join(v.evidence, "; ") + ")"
	}
	c.do(Warn{Text: fmt.Sprintf("%s (gpurun gpus --clear %d ends the quarantine)", text, q.Index)})
	c.refill = true
}

func (ev Published) on(c *Core) { c.health.published(c.now.Boot, ev.UUID) }

// excused returns why a failure spends no retry, or "". The attempt's resources must have been
// released.
func (c *Core) excused(a *attempt, s symptoms, f state.Fact, ev Ended) string {
	switch {
	case !c.begun: // no job is marked as running yet, so only the edge's reason counts
		return ev.Uncharged
	case a.job < 0 || c.jobs[a.job].phase != running || c.jobs[a.job].own > 0 || c.jobs[a.job].quit:
		return ""
	case ev.Displaced:
		return ev.Uncharged
	}
	sick := ""
	for _, id := range a.grant.UUIDs {
		if c.pool == nil {
			break
		}
		if _, is := c.pool.Quarantined(c.now.Boot, id); is && sick == "" {
			sick = c.pool.Label(id)
		}
	}
	return c.health.excused(a, s, f, ev.Uncharged, sick, c.canRunElsewhere)
}
