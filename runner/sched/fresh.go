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

// code is why a job runs or not; see Verdict. Jobs with a code below runs do not run.
type code uint8

const (
	isUpToDate code = iota
	notSelected
	noNeedFailed // when: failure, and none of its needs failed or will run
	needMissing  // job.about is a need that is not selected and has not succeeded
	runs
	neverRan
	forced
	notEnded       // an earlier attempt may still be running
	noted          // the text is in Core.notes; isUpToDate may have a note too
	commandChanged // its name used to have another key
	logDeleted
	needsChanged // job.about is the difference in number
	needNewer    // job.about is the need
	needRuns     // job.about is the need
)

// judge decides for every job whether it runs, each after its needs.
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
	present map[string]bool // all keys of the batch, by jobKey; built when needed
	needs   needsCache
}

func jobKey(file int, key string) string { return strconv.Itoa(file) + "/" + key }

func (f *fresh) judge(id int32) {
	j := &f.c.jobs[id]
	j.verdict, j.about = f.verdict(id)
}

// verdict applies the rules for what runs again, in the order in which a person
// would ask.
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
		// Whether it has anything to do is known once its needs have ended.
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

// note stores the text of a verdict that a code alone cannot express.
func (f *fresh) note(id int32, text string) code {
	f.c.notes[id] = text
	return noted
}

// fromFiles judges a job that succeeded by the state of its files.
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
		f.note(id, "output "+e.Overwritten+" has since been written by another command")
	}
	return isUpToDate
}

// without tells a new job from one whose command changed: the name of the latter has a
// history, under a key that no job of this batch has any more.
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

// needRuns finds the first need that runs again. If a need is not selected and has no
// success on record, it returns the first such need, with missing set.
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

// succeededBefore reports whether a job last ended in a success that counts.
func (c *Core) succeededBefore(id int32) bool {
	rec := c.last(id)
	return rec != nil && rec.State == state.Succeeded && !rec.Forgotten && c.real(rec)
}

// real reports whether a success counts for this run: one on simulated GPUs does not
// count on real ones.
func (c *Core) real(rec *state.Record) bool { return c.opts.Sim || !rec.Sim }

// fromNeeds judges a job that is otherwise up to date by its needs.
func (f *fresh) fromNeeds(id int32, rec *state.Record, need int32) (code, int32) {
	needs := f.c.b.Jobs[id].Needs
	hash := ""
	if known := rec.StartSeq > 0; known { // a user's `done` records no needs
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

// needsCache remembers the last hash: expansions that need the same jobs share one slice
// and come one after another.
type needsCache struct {
	needs []int32
	sum   string
}

// hash identifies the set of jobs in needs by their number and a hash of their sorted
// keys; "" for none.
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

// countOf returns the number of needs in a hash.
func countOf(hash string) int {
	head, _, _ := strings.Cut(hash, ":")
	n, _ := strconv.Atoi(head)
	return n
}

// ending describes how an unsuccessful attempt ended.
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

// Before returns the last end of a job that had this one's name but did something else,
// or nil unless this job's verdict is that its command changed.
func (c *Core) Before(id int) *state.Record {
	if c.jobs[id].verdict != commandChanged {
		return nil
	}
	return c.h.Named(c.file(int32(id)), c.name(int32(id)))
}

// Replaced returns the jobs that never ran, and the successes of which neither the name
// nor the key is in the batch any more: one may be what another was called and did
// before. Nothing is returned where there are more than most of either.
func (c *Core) Replaced(most int) (jobs []int, gone []*state.Record) {
	for id := range c.jobs {
		if c.jobs[id].verdict == neverRan {
			jobs = append(jobs, id)
		}
	}
	if len(jobs) == 0 || len(jobs) > most || c.h.Empty() {
		return nil, nil
	}
	there := map[string]bool{}
	for id := range c.jobs {
		file, j := c.file(int32(id)), &c.b.Jobs[id]
		there[jobKey(file, j.Key.String())], there[jobKey(file, j.Name)] = true, true
	}
	for r := range c.h.Records() {
		file := int(r.Ledger)
		if r.State != state.Succeeded || r.Forgotten || r.UniID == "" || !c.real(r) || there[jobKey(file, r.Key)] || there[jobKey(file, r.Job)] {
			continue
		}
		if gone = append(gone, r); len(gone) > most {
			return nil, nil
		}
	}
	return jobs, gone
}

// Redoes returns the success that running a job would repeat, or nil if there is none or
// the user forced the job to run.
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

// Verdict explains whether a job runs, before anything has started. It is used by plan.
type Verdict struct {
	Run    bool
	Reason string // "never ran", "failed (exit 1)", "command changed", …; "up to date", "not selected"
}

// Verdict returns a job's verdict. It may be called as soon as New has returned.
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
		v.Reason = "started, but how it ended is unknown"
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
