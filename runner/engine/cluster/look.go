package cluster

import (
	"errors"
	"io/fs"
	"os"
	"strings"
	"time"

	"gpurun/runner/engine"
	"gpurun/state"
)

// look reads the files of all attempts, and judges each.
func (c *Cluster) look() {
	for _, e := range c.sorted() {
		if e.submit == nil && !e.adopted || e.submit != nil && e.submit.preparing {
			continue // not submitted yet, so any files belong to an earlier launch
		}
		c.read(e)
		if e.task == nil && e.record == nil && !e.unclear() {
			continue // still queued
		}
		c.judge(e)
		if c.live[e.UniID] != nil {
			c.cancelUnstopped(e)
		}
	}
	c.tidy()
}

// unclear reports whether evidence other than the attempt's own files suggests that it no longer
// waits.
func (e *entry) unclear() bool {
	return e.withdrawn || e.submit == nil || e.submit.job == "" || e.missed > 0 || e.row.State.final() || e.row.State == Runs || e.row.Never
}

// read updates the entry from the node's files.
func (c *Cluster) read(e *entry) {
	s, err := readStatus(e.Dir)
	if e.submit == nil && !e.never && (err == nil || errors.Is(err, fs.ErrNotExist)) {
		c.find(e, s)
	}
	rec, t := s.result(e.UniID)
	if e.record == nil && rec != nil {
		e.record, e.ended, c.unclear = rec, time.Now(), true
	}
	if t == nil {
		if e.adopted && e.shown == (engine.Queued{}) && e.record == nil {
			c.emitQueued(e, engine.Queued{JobID: c.jobID(e), Reason: "submitted by an earlier run"})
		}
		return
	}
	if t.Beat != e.beat {
		e.beat, e.beaten = t.Beat, time.Now()
	}
	was := e.task
	if e.task = t; was == nil {
		c.noteStart(e)
	}
	if t.Running != nil && !e.reported {
		e.reported = true
		c.granted = c.granted || len(t.GPUs)+len(t.UUIDs) > 0
		c.emit(engine.Event{UniID: e.UniID, Running: t.running(e.adopted)})
	}
	if b := t.Background; b != nil && (was == nil || was.Background == nil || *was.Background != *b) {
		c.emit(engine.Event{UniID: e.UniID, Background: b})
	}
	if t.Stray != "" && (was == nil || was.Stray == "") {
		c.emit(engine.Event{Warnings: []string{e.Job + ": " + t.Stray}})
	}
}

// noteStart records how long an attempt took to begin.
func (c *Cluster) noteStart(e *entry) {
	delete(c.displaced, e.Job)
	switch {
	case !e.runs.IsZero():
		c.slowest = max(c.slowest, time.Since(e.runs))
	case !e.adopted: // it began before a list showed it
		c.slowest = max(c.slowest, time.Second)
	}
}

// emitQueued reports the reason for an attempt's wait if it has changed.
func (c *Cluster) emitQueued(e *entry, q engine.Queued) {
	if e.shown != q && !e.reported {
		e.shown = q
		c.emit(engine.Event{UniID: e.UniID, Queued: &q})
	}
}

func (c *Cluster) jobID(e *entry) string {
	if e.submit == nil || e.submit.job == "" {
		return ""
	}
	return c.dialect.Task(e.submit.job, e.n)
}

// judge carries out the verdict on an attempt: it ends the attempt, forbids it to begin, or waits.
func (c *Cluster) judge(e *entry) {
	s := &observation{record: e.record, taken: e.withdrawn, row: e.row, missed: e.missed, asked: e.asked, silent: time.Since(e.beaten)}
	s.missing, s.unsure = time.Since(e.missing), time.Since(e.ended)
	s.running, s.starts = e.running, startLimit(c.slowest)
	s.keeps = c.dialect.Traits(nil).Keeps && e.submit != nil && e.submit.job != ""
	if e.row.State.final() {
		s.over = time.Since(e.over)
	}
	if e.record == nil {
		if s.claimed = claimedBy(e.Dir); s.claimed == "" && e.task != nil {
			s.claimed = e.task.Host // the marker has been removed
		}
	}
	if e.submit == nil {
		if s.missed, s.row = goneAfter, (Row{}); !e.never {
			return // the submission is not known yet
		}
	} else if e.record == nil && !s.begun() {
		s.calling = e.submit.job == "" && e.submit.isCalling()
		s.partial = len(e.submit.rows) > 0
	}
	v := judge(*s)
	switch v.act {
	case voids:
		if !forbid(e.Dir) {
			return // a node has claimed it
		}
		fallthrough
	case ends:
		ended := v.outcome(s, c.dialect.Name(), time.Now())
		if v.act == voids && ended.Displaced { // the next attempt may be preempted just as early
			c.displaced[e.Job] = c.displaced[e.Job].next()
		}
		if r := s.record; r != nil && r.Unfit > 0 {
			node, _, _ := strings.Cut(claimedBy(e.Dir), " ")
			c.small[node] = r.Unfit
		} else if r != nil && r.Untold && c.granted { // this site does assign GPUs, and its controller may just have crashed
			ended.Uncharged = ended.Err
		}
		if v.code == cancelled {
			ended.Err = "by " + c.dialect.Order(Cancel, nil, 0).Name()
		}
		if ended.Why == state.WhyStray && e.task != nil {
			ended.Err = e.task.Stray
		}
		if e.stop != nil && ended.Why == "" && (ended.Lost || s.record == nil) {
			ended.Why = e.stop.why
		}
		if v.code == withdrawn || (v.act == voids || v.code == resubmitted) && s.row.State != Gone && !s.row.State.final() {
			c.requestCancel(e.submit, e.n) // the task would wait forever, or run nothing
		}
		c.end(e, ended)
	default:
		if e.record != nil || s.calling {
			c.unclear = true
		}
	}
}

// tidy removes the files of submissions that are over and that the cluster no longer lists.
func (c *Cluster) tidy() {
	for id, s := range c.submits {
		if s.open == 0 && s.gone >= goneAfter {
			_ = os.RemoveAll(s.dir)
			delete(c.submits, id)
		}
	}
}
