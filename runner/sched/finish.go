package sched

import "time"

// giveUp gives up when the first job waiting for a GPU has waited long enough while
// no job of this run held one: for max_wait or, with --no-wait, until all GPUs have
// been read once since. --no-wait lets a hand-over finish first; max_wait keeps
// counting during one, since the driver may fail in the middle of it.
func (c *Core) giveUp() {
	w := &c.waiter
	c.reads.expire(c.now.Boot)
	if w.id < 0 || c.onGPUs > 0 || c.opts.NoWait && len(c.reads.hands) > 0 {
		w.alone = 0
		return
	}
	now := c.now.Boot
	if w.alone == 0 {
		w.alone = now
		if c.opts.NoWait && c.reads.tried < now {
			c.reads.next = now
		}
	}
	limit := c.b.Settings.MaxWait
	enough := limit > 0 && now-w.alone >= limit
	if c.opts.NoWait {
		enough = c.reads.ever && c.reads.tried >= w.alone && !c.reads.out
	}
	if enough {
		c.viewHead(&c.vain)
		c.gaveUp = true
		w.id, w.kept = -1, nil
	}
}

// unlock handles a batch whose jobs wait for each other, which no loaded batch does:
// rather than wait forever, it marks the first of them blocked.
func (c *Core) unlock() bool {
	if !c.begun || c.draining != "" || c.live.n > 0 || c.counts[pending] == 0 || c.counts[ready]+c.counts[waiting] > 0 {
		return false
	}
	for i := range c.jobs {
		if c.jobs[i].phase == pending {
			c.end(int32(i), blocked)
			return true
		}
	}
	return false
}

// finish ends the run when it has nothing left to do.
func (c *Core) finish() bool {
	if c.live.n > 0 || !c.begun && c.draining == "" {
		return false
	}
	if c.draining == "" && c.counts[pending]+c.counts[ready]+c.counts[waiting] > 0 && !(c.gaveUp && c.onlyGPUs()) {
		return false
	}
	c.finished = true
	c.do(Finish{GaveUp: c.gaveUp})
	return true
}

// onlyGPUs reports whether every remaining job waits for a GPU, or for a job that does.
func (c *Core) onlyGPUs() bool {
	for _, d := range c.backoff {
		if c.jobs[d.id].phase == waiting && c.spec(d.id).Request.Max == 0 {
			return false
		}
	}
	for _, cl := range c.classes.filled {
		if !cl.gpus && c.head(cl) >= 0 {
			return false
		}
	}
	return true
}

// wake requests a Woken for the next thing that happens by time alone.
func (c *Core) wake() {
	at := c.nextTime()
	if at == c.wakeAt {
		return
	}
	c.wakeAt = at
	c.do(Wake{At: at})
}

func (c *Core) nextTime() time.Duration {
	now, at := c.now.Boot, time.Duration(0)
	by := func(t time.Duration) {
		if t > now && (at == 0 || t < at) {
			at = t
		}
	}
	if d, ok := c.nextRetry(); ok && c.draining == "" {
		by(d.at)
	}
	r, w := &c.reads, &c.waiter
	if c.pool != nil {
		by(c.watchDue())
	}
	if r.stray > 0 {
		by(max(r.stray, r.next))
	}
	if r.out {
		by(r.asked + readingLost + 1)
	}
	if w.id < 0 {
		return at
	}
	by(r.next)
	for i := range r.hands {
		by(r.hands[i].began + handOverFor)
		if !r.hands[i].out {
			by(r.hands[i].due)
		}
	}
	for _, s := range c.shunned {
		by(s.until)
	}
	by(w.since + c.b.Settings.Patience)
	if w.alone > 0 && c.b.Settings.MaxWait > 0 {
		by(w.alone + c.b.Settings.MaxWait)
	}
	return at
}
