package sched

import (
	"fmt"
	"slices"
	"time"

	"gpurun/gpu"
	"gpurun/state"
	"gpurun/state/schema"
)

// On a cluster, a job gets another number of GPUs as a successor of its attempt: one that is
// submitted while that still runs, and that waits on its GPUs. Only once it has them is the
// attempt asked to save its work; and only once that has ended because of it does the successor
// become an attempt and begin. In any other case it is ended without ever having run anything.
// So nothing is given up before the other GPUs are there.
//
// A successor is no fact. A run that is killed forgets it, and it gives up by itself.

const (
	readyWithin = 5 * time.Minute // how long a successor may wait for its GPUs
	goneWithin  = 2 * time.Minute // how much longer than the save of its work takes it waits for the end of the attempt
)

// A successor takes the place of a live attempt of its job.
type successor struct {
	next  attempt    // as it will begin; without a uniID while it is prepared
	start state.Fact // what the edge knows of that
	old   *attempt
	since time.Duration // when it was asked for
	ready bool          // it has its GPUs, and the old attempt was asked to save its work
	ended bool          // nobody wants it any more
}

// succession are the successors there are, and the question who could have one.
type succession struct {
	successors []*successor
	survey     request
	surveyed   time.Duration // not to be asked again before
}

// Surveyed answers Survey: how many GPUs are free on one node for each of these jobs, and
// whether anybody waits for his turn there. Without Jobs the cluster has not answered.
type Surveyed struct {
	Jobs    []int
	Free    []int
	Waiting bool
}

// Ready reports that a successor has its GPUs.
type Ready struct {
	UniID string
	Host  string
	Grant gpu.Grant
}

// Busy says how busy the GPUs of an attempt were in the last minute, if only the engine knows that.
type Busy struct {
	UniID   string
	Percent int
}

func (ev Busy) on(c *Core) {
	if a := c.live.byID[ev.UniID]; a != nil {
		a.load, a.loadAt = ev, c.now.Boot
	}
}

// busyFor is how long that counts.
const busyFor = 2 * time.Minute

// load returns how busy the GPUs of an attempt are, if that is known.
func (c *Core) load(a *attempt) (percent int, known bool) {
	return a.load.Percent, a.loadAt > 0 && c.now.Boot-a.loadAt < busyFor
}

// succeed asks for a successor with so many GPUs.
func (c *Core) succeed(a *attempt, n int) {
	cl := c.classOf(a.job)
	next, prepare := c.draft(a.job, cl, gpu.Grant{})
	next.asks = n
	r := &c.spec(a.job).Resize
	prepare.GPUs, prepare.After, prepare.Within = n, a.uniID, r.Grace+c.spec(a.job).Grace+goneWithin
	c.resizes.last[a.job] = c.now.Boot
	c.successors = append(c.successors, &successor{next: *next, old: a, since: c.now.Boot})
	c.do(prepare)
}

// successor returns the one that is, or is to follow, an attempt; nil for none.
func (c *Core) successor(is func(*successor) bool) *successor {
	if i := slices.IndexFunc(c.successors, is); i >= 0 {
		return c.successors[i]
	}
	return nil
}

func (c *Core) successorOf(a *attempt) *successor {
	return c.successor(func(s *successor) bool { return s.old == a && !s.ended })
}

func (c *Core) successorBy(uniID string) *successor {
	return c.successor(func(s *successor) bool { return s.next.uniID == uniID && uniID != "" })
}

// furnished has a successor submitted that was prepared, unless nobody wants it any more.
func (c *Core) furnished(ev Prepared) {
	s := c.prepares(ev.After)
	if s == nil || s.ended || c.live.byID[ev.Start.UniID] != nil {
		c.do(Discard{UniID: ev.Start.UniID})
		c.forget(s)
		return
	}
	a := &s.next
	a.uniID, s.start = ev.Start.UniID, ev.Start
	c.do(Launch{Job: int(a.job), UniID: a.uniID, Key: a.key, Needs: new(needsHash).of(c.b, c.b.Jobs[a.job].Needs)})
}

// unfurnished forgets a successor that could not be prepared.
func (c *Core) unfurnished(ev PrepareFailed) {
	if s := c.prepares(ev.After); s != nil {
		c.keeps(s, ev.Reason)
		c.forget(s)
	}
}

// prepares returns the successor of an attempt that is being prepared, or nil.
func (c *Core) prepares(after string) *successor {
	return c.successor(func(s *successor) bool { return s.old.uniID == after && s.next.uniID == "" })
}

// forget is called when nothing of a successor is left.
func (c *Core) forget(s *successor) {
	c.refill = true
	c.successors = slices.DeleteFunc(c.successors, func(o *successor) bool { return o == s })
}

// dismiss ends a successor that has not begun.
func (c *Core) dismiss(s *successor) {
	if s.ended = true; s.next.uniID != "" {
		c.do(End{UniID: s.next.uniID, Why: state.WhyResize, Kill: true})
	}
}

// tend dismisses the successors that are not wanted any more.
func (c *Core) tend() {
	for _, s := range c.successors {
		late := !s.ready && c.now.Boot-s.since >= readyWithin
		if !s.ended && (late || !c.wanted(s) || s.yields() && c.someWait()) {
			c.dismiss(s)
		}
	}
}

// yields reports whether a successor is to leave its GPUs to another job of its run.
func (s *successor) yields() bool { return !s.ready && s.next.asks > s.old.gpus() }

// wanted reports whether an attempt may still be followed by a successor: both are as they were
// when it was asked for, and nothing keeps the job from starting again at once.
func (c *Core) wanted(s *successor) bool {
	a := s.old
	if c.live.byID[a.uniID] != a || c.draining != "" || c.paused || c.unwanted(a.job) {
		return false
	}
	if s.ready {
		return (a.stop == "" || a.stop == state.WhyResize) && !c.jobs[a.job].quit && !c.isHeld(a.job)
	}
	return c.resizable(a)
}

// someWait reports whether another job of this run waits for GPUs, on the cluster or for leave to
// be submitted.
func (c *Core) someWait() bool {
	if c.live.queued > 0 && slices.ContainsFunc(c.live.all, func(a *attempt) bool { return a.queued && a.asks > 0 }) {
		return true
	}
	return slices.ContainsFunc(c.classes, func(cl *class) bool { return c.orders(cl) > 0 && c.head(cl) >= 0 })
}

// on has the old attempt save its work.
func (ev Ready) on(c *Core) {
	s := c.successorBy(ev.UniID)
	if s == nil || s.ended || s.ready {
		return
	}
	s.next.host = ev.Host
	s.next.grant.Indices, s.next.grant.UUIDs = ev.Grant.Indices, ev.Grant.UUIDs
	if !c.wanted(s) {
		return // see tend
	}
	s.ready = true
	c.resizes.last[s.next.job] = c.now.Boot
	r := &c.spec(s.next.job).Resize
	c.do(Save{UniID: s.old.uniID, Why: state.WhyResize, Signal: r.Signal, Wait: r.Grace})
}

// followed returns the successor that takes the place of an attempt that has ended, while that
// still counts as live; nil for none.
func (c *Core) followed(a *attempt, f *state.Fact) *successor {
	s := c.successorOf(a)
	if s == nil || !s.ready || f.Why != state.WhyResize || f.State != state.Interrupted || !c.wanted(s) {
		return nil
	}
	c.resizes.last[a.job] = c.now.Boot
	f.Reason = fmt.Sprintf("from %s to %d", gpus(a.gpus()), s.next.asks)
	return s
}

// follow lets a successor begin, as the next attempt of its job. end is that of the last.
func (c *Core) follow(s *successor, end *state.Fact) {
	c.forget(s)
	a := &s.next
	a.n, a.start, a.began = c.jobs[a.job].attempt+1, c.now.Wall, c.now.Boot
	c.take(a)
	c.jobs[a.job].attempt = a.n
	f := c.startFact(a, s.start)
	if f.Log == s.old.log && end.LogTo > 0 {
		f.LogFrom = end.LogTo // it was prepared before
	}
	c.record(a.file, a.job, f)
	if a.jobID != "" {
		q := a.fact(state.KindQueued, c.now)
		q.JobID = a.jobID
		c.record(a.file, a.job, q)
	}
	c.do(Begin{UniID: a.uniID})
}

// vanished notes that a successor has ended before it began.
func (c *Core) vanished(s *successor, ev Ended) {
	c.keeps(s, ev.Err)
	c.forget(s)
	c.do(Discard{UniID: ev.UniID})
}

// keeps says once why a job keeps its GPUs, if that was not this run's own decision.
func (c *Core) keeps(s *successor, why string) {
	a := s.old
	if s.ended || why == "" || c.resizes.warned[a.job] {
		return
	}
	c.resizes.warned[a.job] = true
	c.do(Warn{Text: fmt.Sprintf("%s keeps its %s, although resize is set: it could not go on with %s: %s", a.name, gpus(a.gpus()), gpus(s.next.asks), why)})
}

// sizeFor returns how many GPUs an attempt could have at most, beside those that it has until
// then.
func (c *Core) sizeFor(a *attempt) int {
	n := c.spec(a.job).Request.Max
	if most, _ := c.mostOrders(); most >= 0 {
		n = min(n, most-c.ordered())
	}
	return n
}

// ordered returns how many GPUs the engine is asked for.
func (c *Core) ordered() int {
	n := c.live.asks
	for _, s := range c.successors {
		n += s.next.asks
	}
	return n
}

// mayGrow reports whether an attempt may have more GPUs, as far as its job and its run are concerned.
func (c *Core) mayGrow(a *attempt) bool {
	percent, known := c.load(a)
	return c.sizeFor(a) > a.gpus() && !c.someWait() && (!known || percent > c.spec(a.job).Resize.Up)
}

// mayShrink is mayGrow for its least, in favor of somebody who waits.
func (c *Core) mayShrink(a *attempt) bool {
	percent, known := c.load(a)
	least := c.spec(a.job).Request.Min
	return known && percent < c.spec(a.job).Resize.Down && a.gpus() > least && c.sizeFor(a) >= least
}

// succeedsAt returns when an attempt may be followed by one with other GPUs, and whether it may. How
// busy the GPUs are is known after a minute; where it is not, twice as long is enough.
func (c *Core) succeedsAt(a *attempt) (at time.Duration, may bool) {
	if !c.resizable(a) || !c.mayGrow(a) && !c.mayShrink(a) {
		return 0, false
	}
	at = a.began + c.steady()
	if _, known := c.load(a); !known {
		at += c.steady()
	}
	if last, ever := c.resizes.last[a.job]; ever {
		at = max(at, last+c.spec(a.job).Resize.Every)
	}
	return at, true
}

// maySucceed reports whether anything may get other GPUs now: one at a time.
func (c *Core) maySucceed() bool {
	return c.opts.Survey > 0 && c.resizes.possible && c.begun && c.draining == "" && len(c.successors) == 0 && c.slots() == nil
}

// seek asks whether there are GPUs for those attempts that may have more, or fewer.
func (c *Core) seek() {
	if c.survey.waits(c.now.Boot) || c.now.Boot < c.surveyed || !c.maySucceed() {
		return
	}
	var jobs []int
	for a := range c.live.started {
		if at, may := c.succeedsAt(a); may && at <= c.now.Boot {
			jobs = append(jobs, int(a.job))
		}
	}
	if len(jobs) > 0 {
		c.survey, c.surveyed = request{c.now.Boot, true}, c.now.Boot+c.opts.Survey
		c.do(Survey{Jobs: jobs})
	}
}

// on has the first attempt followed by one with other GPUs for which there are some. Others come
// after that, by another survey: what is free may be the same.
func (ev Surveyed) on(c *Core) {
	c.survey.out = false
	if !c.maySucceed() {
		return
	}
	for i, job := range ev.Jobs {
		for a := range c.live.started {
			if a.job != int32(job) {
				continue
			}
			if at, may := c.succeedsAt(a); !may || at > c.now.Boot {
				continue
			}
			n := min(c.sizeFor(a), ev.Free[i])
			least := c.spec(a.job).Request.Min
			switch {
			case c.mayShrink(a) && (ev.Waiting || c.someWait()) && n >= least:
				c.succeed(a, least)
				return
			case c.mayGrow(a) && !ev.Waiting && n > a.gpus():
				c.succeed(a, n)
				return
			}
		}
	}
}

// nextSuccession calls by with the times at which something is to be done for successors.
func (c *Core) nextSuccession(by func(time.Duration)) {
	for _, s := range c.successors {
		if !s.ready && !s.ended {
			by(s.since + readyWithin)
		}
	}
	switch {
	case !c.maySucceed():
	case c.survey.out:
		by(c.survey.at + readingLost + 1)
	default:
		for a := range c.live.started {
			if at, may := c.succeedsAt(a); may {
				by(max(at, c.surveyed))
			}
		}
	}
}

// waitOf returns what an attempt, or what is to follow it, waits for on the cluster; nil for nothing.
func (c *Core) waitOf(a *attempt) *schema.Wait {
	if note := c.successionNote(a); note != "" {
		return waits(schema.WaitCluster, "%s", note)
	}
	return a.standing.wait(c.now)
}

// successionNote says what is to follow an attempt, or "".
func (c *Core) successionNote(a *attempt) string {
	s := c.successorOf(a)
	switch {
	case s == nil:
		return ""
	case s.ready:
		return fmt.Sprintf("to go on with %s on %s: it saves its work", gpus(s.next.asks), s.next.host)
	}
	return fmt.Sprintf("to go on with %s: %s", gpus(s.next.asks), s.next.standing)
}
