package cluster

import (
	"slices"
	"time"

	"gpurun/runner/engine"
	"gpurun/state"
)

// cancelAfter is how long after a stop's grace period gpurun cancels the task.
const cancelAfter = 30 * time.Second

// Stop ends an attempt: immediately if no node has it, or else through its keeper.
func (c *Cluster) Stop(uniID, why string, how engine.StopMode) {
	c.post.Put(func() {
		r := request{how: map[engine.StopMode]string{engine.Term: "term", engine.Kill: "kill", engine.Withdraw: ""}[how], why: why}
		c.stops = append(c.stops, ending{uniID, r})
	})
}

// An ending is a request to end an attempt.
type ending struct {
	uniID string
	request
}

// stopAll carries out all requested stops. There may be thousands, and forbidding an attempt to
// begin waits for the disk, so stopAll forbids many concurrently.
func (c *Cluster) stopAll() {
	stops := c.stops
	c.stops = nil
	voided := make([]bool, len(stops))
	c.atOnce(len(stops), func(i int) {
		e := c.live[stops[i].uniID]
		voided[i] = e != nil && e.task == nil && (e.submit != nil || e.adopted) && forbid(e.Dir)
	})
	for i, s := range stops {
		c.stopAttempt(s.uniID, s.request, voided[i])
	}
}

// stopAttempt asks the attempt's node to end it. An attempt that is void or was never submitted
// ends immediately.
func (c *Cluster) stopAttempt(uniID string, r request, void bool) {
	e := c.live[uniID]
	if e == nil {
		return
	}
	waiting := slices.IndexFunc(c.queue, func(l *engine.Launch) bool { return l.UniID == uniID })
	if waiting >= 0 {
		c.queue = slices.Delete(c.queue, waiting, waiting+1)
	}
	if waiting >= 0 || void {
		c.requestCancel(e.submit, e.n)
		c.end(e, &state.End{ExitCode: -1, At: time.Now(), Why: r.why, Lost: true, Void: true, Err: "stopped before it started"})
		return
	}
	if r.how == "" {
		return // the attempt is beginning, or has begun
	}
	if e.stop != nil {
		r.why = e.stop.why // keep the first reason
	}
	e.stop, e.since = &r, time.Now()
	if e.submit == nil {
		return // its submission is not known, so there is no node to ask
	}
	at := place{Submit: e.submit.dir, Task: e.n}
	if err := r.put(at); err != nil {
		c.Log.Warn().Err(err).Str("uni_id", uniID).Msg("stop")
	}
}

// cancelUnstopped cancels an attempt that has not ended although it was stopped.
func (c *Cluster) cancelUnstopped(e *entry) {
	if e.stop == nil || e.chased || e.record != nil {
		return
	}
	limit := cancelAfter
	if e.stop.how == "term" {
		limit += e.Grace
	}
	if time.Since(e.since) > limit {
		e.chased = true
		c.requestCancel(e.submit, e.n)
	}
}
