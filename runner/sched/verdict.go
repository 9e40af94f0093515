package sched

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"gpurun/jobspec"
	"gpurun/state"
	"gpurun/state/schema"
)

// Evidence is the state of the file system for a job whose last attempt succeeded.
type Evidence struct {
	MissingOutput string // an output that does not exist
	Overwritten   string // an output that another command has written since; shown by plan, reruns nothing
	Unsearched    string // an output or input whose search was cut short, and why; reruns nothing
	ChangedInput  string // an input that is newer than the job's start and has different content
	LogDeleted    bool   // the job has no outputs, and the log that its file names is gone
}

// verdict returns why the job runs again, or a remark that changes nothing; usually neither.
func (e Evidence) verdict() (again reason, remark string) {
	switch {
	case e.MissingOutput != "":
		return reason{schema.PlanOutputMissing, "output " + e.MissingOutput + " missing"}, ""
	case e.ChangedInput != "":
		return reason{schema.PlanInputChanged, "input " + e.ChangedInput + " changed"}, ""
	case e.LogDeleted:
		return reason{schema.PlanLogDeleted, "log deleted"}, ""
	case e.Unsearched != "":
		return reason{}, "; " + e.Unsearched
	case e.Overwritten != "":
		return reason{}, "; output " + e.Overwritten + " was overwritten by another command"
	}
	return reason{}, ""
}

// Verdict explains whether a job runs, before anything has started. It is used by plan.
type Verdict struct {
	Run    bool
	Code   schema.PlanCode
	Reason string // "never ran", "failed (exit 1)", "command changed", …; "up to date", "not selected"
}

// reason is the reason for a verdict.
type reason struct {
	code schema.PlanCode
	text string
}

// A decision is the effect of a verdict on the run.
type decision uint8

const (
	stays      decision = iota // it is up to date, or not selected
	hasNothing                 // when: failure, and none of its needs failed or will run
	lacks                      // a need is not selected and has not succeeded
	runs
)

// judged returns the phase that follows from the verdict on a job without attempts.
func (j *job) judged() phase {
	switch {
	case j.fate == hasNothing:
		return notNeeded
	case j.fate == stays && j.reason.code == schema.PlanPruned:
		return pruned
	case j.fate == stays:
		return upToDate
	}
	return pending
}

// Reasons that several rules give.
var (
	neverRan       = reason{schema.PlanNeverRan, "never ran"}
	commandChanged = reason{schema.PlanCommandChanged, "command changed"} // its name used to have another key
)

// Verdict returns a job's verdict. It may be called as soon as New has returned.
func (c *Core) Verdict(id int) Verdict {
	if !c.judged {
		c.judge()
	}
	j := &c.jobs[id]
	return Verdict{Run: j.fate == runs, Code: j.reason.code, Reason: j.reason.text}
}

func (ev Looked) on(c *Core) {
	maps.Copy(c.evidence, ev.Evidence)
	c.judged = false
}

// judge decides for every job whether it runs, each after its needs.
func (c *Core) judge() {
	c.judged = true
	f := verdictPass{c: c, open: openKeys(c.h)}
	for _, id := range c.graph.order {
		j := &c.jobs[id]
		j.fate, j.reason = f.verdict(id)
	}
}

// openKeys returns the keys with an attempt that has not ended.
func openKeys(h *state.History) map[place]bool {
	open := map[place]bool{}
	for _, a := range h.Open {
		open[place{file: a.Ledger, key: a.Start.Key}] = true
	}
	return open
}

// verdictPass is one pass of verdicts over all jobs.
type verdictPass struct {
	c       *Core
	open    map[place]bool // keys with an attempt that has not ended
	present map[place]bool // all keys and names of the batch; built when needed
	needs   needsHash
}

// verdict applies the rules for what runs again. The first rule that applies gives the reason.
func (f *verdictPass) verdict(id int32) (fate decision, why reason) {
	c := f.c
	defer func() { c.jobs[id].anew = fate == runs && f.anew(id, why.code) }()
	if c.jobs[id].phase == unselected {
		return stays, reason{schema.PlanNotSelected, "not selected"}
	}
	if len(f.open) > 0 && f.open[c.keyOf(id)] {
		return runs, reason{schema.PlanUnknownEnd, "started, but its outcome is unknown"}
	}
	need, missing := f.needRuns(id)
	forced := c.opts.Forced != nil && c.opts.Forced[id]
	switch when := c.spec(id).When; {
	case !forced && len(c.b.Jobs[id].Needs) > 0 && c.markedDone(id):
		// Its needs do not matter.
	case when == jobspec.OnFailure && need >= 0:
		// Only the ends of its needs will show whether it has anything to do.
	case when == jobspec.OnFailure:
		return hasNothing, reason{schema.PlanNotNeeded, "not needed: none of its needs failed"}
	case missing && when != jobspec.Always:
		return lacks, reason{schema.PlanNeedMissing, c.whyMissing(need)}
	}
	if forced {
		return runs, reason{schema.PlanForced, "forced"}
	}
	if n := c.missesPruned(id, c.isPruned); n >= 0 && !c.succeededBefore(id) {
		return stays, reason{schema.PlanPruned, needPruned(c.name(n)).Text}
	}
	again, remark := c.evidence[int(id)].verdict()
	if len(c.b.Jobs[id].Needs) > 0 || c.h.Plain(c.file(id), c.b.Jobs[id].Key) == 0 {
		rec := c.last(id)
		switch {
		case rec == nil:
			return runs, f.without(id)
		case rec.Forgotten:
			return runs, reason{schema.PlanForgotten, "forgotten"}
		case (rec.State == state.Succeeded || rec.State == state.Pruned) && !c.real(rec):
			return runs, reason{schema.PlanSimulated, string(rec.State) + " on simulated GPUs only"}
		case rec.State == state.Pruned && c.ruleOf(id).Metric != "" && !c.opts.NoPrune:
			if again = f.outdated(id, rec, need); again.text == "" {
				return stays, reason{schema.PlanPruned, "pruned: " + rec.Reason}
			}
			return runs, again
		case rec.State != state.Succeeded:
			return runs, reason{schema.PlanNoSuccess, howEnded(rec)}
		}
		again = cmp.Or(again, f.fromNeeds(id, rec, need))
	}
	if again.text != "" {
		return runs, again
	}
	return stays, reason{schema.PlanUpToDate, "up to date" + remark}
}

// outdated returns why the work of an unfinished attempt no longer counts, or no reason. Missing
// outputs are ignored, since the attempt may not have written any.
func (f *verdictPass) outdated(id int32, rec *state.Record, need int32) reason {
	again, _ := Evidence{ChangedInput: f.c.evidence[int(id)].ChangedInput}.verdict()
	return cmp.Or(again, f.fromNeeds(id, rec, need))
}

// anew reports whether a job starts from different data than its last attempt, so that prune must
// not compare what that attempt reported. why is the reason for running the job.
func (f *verdictPass) anew(id int32, why schema.PlanCode) bool {
	rec := f.c.last(id)
	switch {
	case rec == nil || len(rec.Points) == 0 || why == schema.PlanUnknownEnd:
		return false
	case why == schema.PlanForced:
		return rec.State != state.Pruned // a pruned job continues to its end
	case why == schema.PlanNoSuccess:
		need, _ := f.needRuns(id)
		return !f.c.real(rec) || f.outdated(id, rec, need).text != ""
	}
	return true
}

// without distinguishes a new job from one whose command changed: the latter's name has a history,
// under a key that no job of this batch has any more.
func (f *verdictPass) without(id int32) reason {
	c := f.c
	if c.h.Empty() {
		return neverRan
	}
	old := c.h.Named(c.file(id), c.name(id))
	if old == nil {
		return neverRan
	}
	if f.present == nil {
		f.present = c.places()
	}
	if f.present[place{file: c.file(id), key: old.Key}] {
		return neverRan
	}
	return commandChanged
}

// places returns the keys and names of all jobs of the batch.
func (c *Core) places() map[place]bool {
	all := make(map[place]bool, 2*len(c.jobs))
	for id := range c.each {
		all[c.keyOf(id)], all[c.nameOf(id)] = true, true
	}
	return all
}

// needRuns finds the first need that runs again; -1 for none. If a need is not selected
// and has no success on record, it returns the first such need, with missing set.
func (f *verdictPass) needRuns(id int32) (need int32, missing bool) {
	need = -1
	for _, n := range f.c.b.Jobs[id].Needs {
		if f.c.jobs[n].phase == unselected && f.c.lacksNeed(id, n) {
			return n, true
		} else if need < 0 && f.c.jobs[n].fate >= lacks {
			need = n
		}
	}
	return need, false
}

func (c *Core) whyMissing(need int32) string {
	return fmt.Sprintf("needs %s, which is not selected and has not succeeded", c.name(need))
}

// succeededBefore reports whether a job last ended in a success that counts.
func (c *Core) succeededBefore(id int32) bool { return c.counted(c.last(id)) }

// counted reports whether a record is of a success that counts for this run.
func (c *Core) counted(r *state.Record) bool {
	return r != nil && r.State == state.Succeeded && !r.Forgotten && c.real(r)
}

// markedDone reports whether the user recorded a job as done regardless of its needs.
func (c *Core) markedDone(id int32) bool {
	r := c.last(id)
	return c.counted(r) && r.By != ""
}

// real reports whether a success counts for this run: one on simulated GPUs does not
// count on real ones.
func (c *Core) real(rec *state.Record) bool { return c.opts.Sim || !rec.Simulated() }

// fromNeeds returns why a job that is otherwise up to date runs again because of its needs, or no
// reason.
func (f *verdictPass) fromNeeds(id int32, rec *state.Record, need int32) reason {
	needs := f.c.b.Jobs[id].Needs
	hash := ""
	if rec.By != "" {
		return reason{} // a user's mark holds until gpurun forget
	}
	if known := rec.StartSeq > 0 || rec.From != ""; known {
		hash = f.needs.of(f.c.b, needs)
		before, _, _ := strings.Cut(rec.Needs, ":")
		n, _ := strconv.Atoi(before)
		if d := len(needs) - n; d != 0 {
			return reason{schema.PlanNeedsChanged, fmt.Sprintf("needs changed (%+d)", d)}
		}
	}
	if need >= 0 {
		return reason{schema.PlanNeedRuns, "needs " + f.c.name(need) + ", which runs again"}
	}
	if hash != "" && hash != rec.Needs {
		return reason{schema.PlanNeedsChanged, "needs changed"}
	}
	for _, n := range needs {
		other := f.c.last(n)
		if other != nil && other.State == state.Succeeded && other.NewerThan(rec) {
			return reason{schema.PlanNeedNewer, "needs " + f.c.name(n) + ", which is newer"}
		}
	}
	return reason{}
}

// needsHash remembers the last hash, since expansions that need the same jobs share one slice
// and come one after another.
type needsHash struct {
	needs []int32
	sum   string
}

// of identifies the set of jobs in needs by their number and a hash of their sorted
// keys; "" for none.
func (n *needsHash) of(b *jobspec.Batch, needs []int32) string {
	if len(needs) == 0 {
		return ""
	}
	if slices.Equal(n.needs, needs) {
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
	n.needs, n.sum = needs, strconv.Itoa(len(needs))+":"+hex.EncodeToString(h.Sum(nil)[:12])
	return n.sum
}

// howEnded describes how an unsuccessful attempt ended.
func howEnded(r *state.Record) string {
	if r.State != state.Failed {
		return string(r.State)
	}
	why := cmp.Or(r.Reason, r.Signal)
	if why == "" && r.ExitCode != nil {
		why = fmt.Sprintf("exit %d", *r.ExitCode)
	}
	if why == "" {
		return "failed"
	}
	return "failed (" + why + ")"
}

// Before returns the last end recorded under a job's name with its earlier command, if the
// verdict is that its command changed; otherwise nil.
func (c *Core) Before(id int) *state.Record {
	if c.Verdict(id).Code != schema.PlanCommandChanged {
		return nil
	}
	return c.h.Named(c.file(int32(id)), c.name(int32(id)))
}

// Replaced returns the jobs that never ran, and the successes whose name and key are both gone from
// the batch. Each of the jobs may have succeeded before, under the name and command of one of these
// successes. If either list would be longer than most, Replaced returns neither.
func (c *Core) Replaced(most int) (jobs []int, gone []*state.Record) {
	for id := range c.jobs {
		if c.Verdict(id).Code == schema.PlanNeverRan {
			jobs = append(jobs, id)
		}
	}
	if len(jobs) == 0 || len(jobs) > most || c.h.Empty() {
		return nil, nil
	}
	there := c.places()
	for r := range c.h.Records() {
		if !c.counted(r) || r.UniID == "" || there[place{file: r.Ledger, key: r.Key}] || there[place{file: r.Ledger, name: r.Job}] {
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
	if v := c.Verdict(id); !v.Run || v.Code == schema.PlanForced {
		return nil
	}
	r := c.Before(id)
	if r == nil {
		r = c.last(int32(id))
	}
	if !c.counted(r) {
		return nil
	}
	return r
}

// Phases returns the phase in which the last run of a file left each of its jobs. It is meant for
// when no run is active. Jobs with an open attempt count as running.
func Phases(b *jobspec.Batch, h *state.History) []state.Phase {
	c := New(b, h, Options{})
	open, phases := openKeys(h), make([]state.Phase, len(b.Jobs))
	for _, id := range c.graph.order {
		if open[c.keyOf(id)] {
			phases[id] = state.Running // or queued, which only its engine can tell
		} else {
			phases[id] = c.lastPhase(id, phases)
		}
	}
	return phases
}

// BlockedBy returns why a job is blocked or was not started, given the result of Phases; nil if no
// need is the cause.
func BlockedBy(b *jobspec.Batch, phases []state.Phase, id int) *schema.Cause {
	for _, n := range b.Jobs[id].Needs {
		if phases[id] == state.Pruned && phases[n] == state.Pruned {
			return needPruned(b.Jobs[n].Name)
		}
		if phases[n].Bad() {
			return needFailed(b.Jobs[n].Name, phases[n])
		}
	}
	return nil
}

// lastPhase returns the phase in which the last run left a job that is not running, given the
// phases of its needs.
func (c *Core) lastPhase(id int32, phases []state.Phase) state.Phase {
	rec := c.last(id)
	if rec != nil && rec.Forgotten {
		rec = nil
	}
	// An end from before the last run does not show what that run did; the job's needs do.
	before := rec == nil || rec.Time.Before(c.h.LastRun(c.file(id)).Time)
	if before && !c.markedDone(id) {
		bad, all := false, true
		for _, n := range c.b.Jobs[id].Needs {
			bad = bad || phases[n].Bad()
			all = all && phases[n].Ended() && phases[n] != state.Interrupted
		}
		switch when := c.spec(id).When; {
		case when == jobspec.OnFailure && all && !bad:
			return state.NotNeeded
		case when != jobspec.OnFailure && when != jobspec.Always && bad:
			return state.Blocked
		case c.missesPruned(id, func(n int32) bool { return phases[n] == state.Pruned }) >= 0:
			return state.Pruned
		}
	}
	switch {
	case rec == nil, before && (rec.State == state.Interrupted || rec.State == state.Cancelled), rec.Uncharged != "":
		return state.Pending // the last run would have retried it, had it continued
	case before && rec.State == state.Succeeded:
		return state.UpToDate
	}
	return rec.State
}
