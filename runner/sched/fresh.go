package sched

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"gpurun/jobspec"
	"gpurun/state"
)

// code is why a job runs, or not; see Verdict. What is below runs is not run.
type code uint8

const (
	isUpToDate code = iota
	notSelected
	noNeedFailed // when: failure, and none of its needs failed or runs
	needMissing  // job.about is a need that is not selected and has not succeeded
	runs
	neverRan
	forced
	notEnded       // an earlier attempt may still run
	noted          // the text is in Core.notes; isUpToDate may have one too
	commandChanged // another key had its name
	logDeleted
	needsChanged // job.about is by how many
	needNewer    // job.about is the need
	needRuns     // job.about is the need
)

// judge says of every job whether it runs, each behind its needs.
func (c *Core) judge() {
	clear(c.notes)
	f := fresh{c: c, open: map[string]bool{}}
	for _, a := range c.h.Open {
		f.open[jobKey(a.Ledger, a.Start.Key)] = true
	}
	if c.graph.order != nil {
		for _, id := range c.graph.order {
			f.judge(id)
		}
		return
	}
	for id := range c.jobs {
		f.judge(int32(id))
	}
}

// fresh is one pass over all jobs.
type fresh struct {
	c       *Core
	open    map[string]bool // keys with an attempt that has not ended, by jobKey
	present map[string]bool // all keys of the batch, by jobKey; made when needed
	needs   needsCache
}

func jobKey(file int, key string) string { return strconv.Itoa(file) + "/" + key }

func (f *fresh) judge(id int32) {
	j := &f.c.jobs[id]
	j.verdict, j.about = f.verdict(id)
}

// verdict applies the rules of behaviour.md section 3, in the order in which a
// person would ask.
func (f *fresh) verdict(id int32) (code, int32) {
	c := f.c
	if c.jobs[id].phase == unselected {
		return notSelected, 0
	}
	if len(f.open) > 0 && f.open[jobKey(c.file(id), c.b.Jobs[id].Key.String())] {
		return notEnded, 0
	}
	need, missing := f.needRuns(id)
	when := c.spec(id).When
	switch {
	case missing && when == jobspec.OnFailure || when == jobspec.OnFailure && need >= 0:
		// Whether it has anything to do is seen when its needs have ended.
	case missing && when != jobspec.Always:
		return needMissing, need
	case when == jobspec.OnFailure:
		return noNeedFailed, 0
	}
	if c.opts.Forced != nil && c.opts.Forced(int(id)) {
		return forced, 0
	}
	if len(c.b.Jobs[id].Needs) == 0 && c.h.Plain(c.file(id), c.b.Jobs[id].Key) {
		return f.fromFiles(id), 0
	}
	rec := c.last(id)
	switch {
	case rec == nil:
		return f.without(id), 0
	case rec.Forgotten:
		return f.note(id, "forgotten"), 0
	case rec.State != state.Succeeded:
		return f.note(id, ending(rec)), 0
	case !c.real(rec):
		return f.note(id, "succeeded on simulated GPUs only"), 0
	}
	if why := f.fromFiles(id); why != isUpToDate {
		return why, 0
	}
	return f.fromNeeds(id, rec, need)
}

// note keeps what a verdict says, where its code is not enough.
func (f *fresh) note(id int32, text string) code {
	f.c.notes[id] = text
	return noted
}

// fromFiles judges a job that succeeded by what the file system says.
func (f *fresh) fromFiles(id int32) code {
	if f.c.evidence == nil {
		return isUpToDate
	}
	switch e := f.c.evidence(int(id)); {
	case e.MissingOutput != "":
		return f.note(id, "output "+e.MissingOutput+" missing")
	case e.ChangedInput != "":
		return f.note(id, "input "+e.ChangedInput+" changed")
	case e.LogDeleted:
		return logDeleted
	case e.Unsearched != "":
		f.note(id, e.Unsearched)
	case e.Overwritten != "":
		f.note(id, "output "+e.Overwritten+" was written by another command since")
	}
	return isUpToDate
}

// without tells a job that is new from one whose command has changed: its name
// has a history, under a key that no job of this batch has any more.
func (f *fresh) without(id int32) code {
	c := f.c
	if c.h.Empty() {
		return neverRan
	}
	old := c.h.Named(c.file(id), c.name(id))
	if old == nil {
		return neverRan
	}
	if f.present == nil {
		f.present = make(map[string]bool, len(c.jobs))
		for i := range c.b.Jobs {
			f.present[jobKey(c.file(int32(i)), c.b.Jobs[i].Key.String())] = true
		}
	}
	if f.present[jobKey(c.file(id), old.Key)] {
		return neverRan
	}
	return commandChanged
}

// needRuns finds the first need that runs again, or, when missing is set, the
// first that is not selected and has no success to show.
func (f *fresh) needRuns(id int32) (need int32, missing bool) {
	need = -1
	for _, n := range f.c.b.Jobs[id].Needs {
		if v := f.c.jobs[n].verdict; v == notSelected && !f.c.succeededBefore(n) {
			return n, true
		} else if need < 0 && (v > runs || v == needMissing) {
			need = n
		}
	}
	return need, false
}

// succeededBefore says whether the last end of a job is a success that counts.
func (c *Core) succeededBefore(id int32) bool {
	rec := c.last(id)
	return rec != nil && rec.State == state.Succeeded && !rec.Forgotten && c.real(rec)
}

// real reports whether a success is one for this run: one on simulated GPUs is none
// for a run on real ones.
func (c *Core) real(rec *state.Record) bool { return c.opts.Sim || !rec.Sim }

// fromNeeds judges a job that is fresh by itself by what it needs.
func (f *fresh) fromNeeds(id int32, rec *state.Record, need int32) (code, int32) {
	needs := f.c.b.Jobs[id].Needs
	hash := ""
	if known := rec.StartSeq > 0; known { // a person's `done` says nothing of needs
		hash = f.needs.hash(f.c.b, needs)
		if d := int32(len(needs) - countOf(rec.Needs)); d != 0 {
			return needsChanged, d
		}
	}
	if need >= 0 {
		return needRuns, need
	}
	if hash != "" && hash != rec.Needs {
		return needsChanged, 0
	}
	for _, n := range needs {
		other := f.c.last(n)
		if other != nil && other.State == state.Succeeded && !(other.By != "" && rec.By != "") && other.NewerThan(rec) {
			return needNewer, n
		}
	}
	return isUpToDate, 0
}

// needsCache remembers the last hash: expansions that need the same jobs share
// one slice, and stand side by side.
type needsCache struct {
	needs []int32
	sum   string
}

// hash names the set of jobs that needs match: how many, and a hash over their
// sorted keys; "" for none.
func (n *needsCache) hash(b *jobspec.Batch, needs []int32) string {
	if len(needs) == 0 {
		return ""
	}
	if len(n.needs) == len(needs) && (&n.needs[0] == &needs[0] || slices.Equal(n.needs, needs)) {
		return n.sum
	}
	keys := make([]jobspec.Key, len(needs))
	for i, id := range needs {
		keys[i] = b.Jobs[id].Key
	}
	slices.SortFunc(keys, func(a, b jobspec.Key) int { return strings.Compare(string(a[:]), string(b[:])) })
	h := sha256.New()
	for i := range keys {
		h.Write(keys[i][:])
	}
	n.needs = needs
	n.sum = strconv.Itoa(len(needs)) + ":" + hex.EncodeToString(h.Sum(nil)[:12])
	return n.sum
}

// countOf is the number of needs that a hash was made of.
func countOf(hash string) int {
	head, _, _ := strings.Cut(hash, ":")
	n, _ := strconv.Atoi(head)
	return n
}

// ending says in words how an attempt ended that was no success.
func ending(r *state.Record) string {
	if r.State != state.Failed {
		return string(r.State)
	}
	switch {
	case r.Reason != "":
		return "failed (" + r.Reason + ")"
	case r.Signal != "":
		return "failed (" + r.Signal + ")"
	case r.ExitCode != nil:
		return fmt.Sprintf("failed (exit %d)", *r.ExitCode)
	}
	return "failed"
}

// Before is the last end of a job that had this one's name and did something else,
// nil where the verdict is not that its command has changed.
func (c *Core) Before(id int) *state.Record {
	if c.jobs[id].verdict != commandChanged {
		return nil
	}
	return c.h.Named(c.file(int32(id)), c.name(int32(id)))
}

// Redoes is the success that a run of a job would do once more, nil where there is
// none, or where a person has asked for that.
func (c *Core) Redoes(id int) *state.Record {
	j := &c.jobs[id]
	if j.verdict <= runs || j.verdict == forced {
		return nil
	}
	r := c.Before(id)
	if r == nil {
		r = c.last(int32(id))
	}
	if r == nil || r.State != state.Succeeded || r.Forgotten || !c.real(r) {
		return nil
	}
	return r
}

// Verdict says why a job runs or not, before anything has started: for plan.
type Verdict struct {
	Run    bool
	Reason string // "never ran", "failed (exit 1)", "command changed", …; "up to date", "not selected"
}

// Verdict is valid for every job of the batch from New on.
func (c *Core) Verdict(id int) Verdict {
	j := &c.jobs[id]
	v := Verdict{Run: j.verdict > runs}
	switch j.verdict {
	case isUpToDate:
		v.Reason = "up to date"
		if note := c.notes[int32(id)]; note != "" {
			v.Reason += "; " + note
		}
	case notSelected:
		v.Reason = "not selected"
	case noNeedFailed:
		v.Reason = "not needed: no need failed"
	case needMissing:
		v.Reason = fmt.Sprintf("need %s is not selected and has not succeeded", c.name(j.about))
	case neverRan:
		v.Reason = "never ran"
	case forced:
		v.Reason = "forced"
	case notEnded:
		v.Reason = "started, its end is not known"
	case noted:
		v.Reason = c.notes[int32(id)]
	case commandChanged:
		v.Reason = "command changed"
	case logDeleted:
		v.Reason = "log deleted"
	case needsChanged:
		v.Reason = "needs changed"
		if j.about != 0 {
			v.Reason = fmt.Sprintf("needs changed (%+d)", j.about)
		}
	case needNewer:
		v.Reason = "need " + c.name(j.about) + " is newer"
	case needRuns:
		v.Reason = "need " + c.name(j.about) + " runs again"
	}
	return v
}
