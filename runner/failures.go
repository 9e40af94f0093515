package runner

import (
	"gpurun/jobspec"
	"gpurun/runner/files"
	"gpurun/state"
	"gpurun/state/host"
	"gpurun/state/schema"
)

// maxFailures is how many failures the summary lists.
const maxFailures = 50

// A Last is the last attempt of a failed job. For other jobs, Record is nil.
type Last struct {
	*state.Record
	out logParts
}

// shownLog returns the path of the log, or "" if a cluster ended the attempt before it could make one.
func (l Last) shownLog() string {
	if l.Engine != "" && !host.Exists(l.Log) {
		return ""
	}
	return l.Log
}

// Recorded returns the last attempt of a job with this record, which may be nil.
func Recorded(r *state.Record) (l Last) {
	if r != nil {
		l = Last{r, logOf(r.Log)}
	}
	return l
}

// Failures returns the jobs that failed, or whose retry was prevented by the end of the run. It
// merges jobs that failed with the same error, and lists the most frequent errors first. Jobs that
// were cancelled or interrupted come last.
func Failures(b *jobspec.Batch, phase func(id int) state.Phase, last func(id int) Last) []schema.FailedJob {
	var jobs []*schema.Job
	var lasts []Last
	var ids []int
	for id := range b.Jobs {
		p := phase(id)
		if p == state.Blocked || !p.Bad() && p != state.Interrupted {
			continue
		}
		l := last(id)
		if l.Record == nil || p == state.Interrupted && l.UniID != "" {
			continue
		}
		jobs = append(jobs, schema.EndedJob(b.Jobs[id].Name, p, l.Record))
		lasts, ids = append(lasts, l), append(ids, id)
	}
	groups, of := schema.Failures(jobs)
	unfinished := map[schema.Cause]int{} // groups of jobs that did not fail
	for i, g := range of {
		if j := jobs[i]; g < 0 {
			cause := schema.Value(j.Cause)
			at, known := unfinished[cause]
			if !known {
				at = len(groups)
				unfinished[cause], groups = at, append(groups, schema.Alike{State: j.State, Cause: cause})
			}
			a := &groups[at]
			of[i], a.Count, a.Jobs = at, a.Count+1, append(a.Jobs, j.Name)
		}
	}
	list, blocked := make([]schema.FailedJob, min(len(groups), maxFailures)), blockedBy(b, phase)
	for i, g := range of {
		if g >= len(list) {
			continue
		}
		if f := &list[g]; f.Job == "" {
			last := lasts[i]
			*f = schema.FailedJob{
				Job: jobs[i].Name, Start: state.Fact{Time: last.Start, Engine: last.Engine, GPUs: last.GPUs}, End: last.Fact,
				Log: last.shownLog(), Tail: files.LastLines(last.out.tail(logTail), 5), Alike: groups[g],
			}
		}
		list[g].Blocked += blocked[ids[i]]
	}
	return list
}

// blockedBy returns, for each failed job, the number of jobs that it blocked.
func blockedBy(b *jobspec.Batch, phase func(id int) state.Phase) map[int]int {
	count := map[int]int{}
	known := map[int]int{}
	for id := range b.Jobs {
		if phase(id) == state.Blocked {
			if c := cause(b, phase, id, known); c >= 0 {
				count[c]++
			}
		}
	}
	return count
}

// cause follows a blocked job's needs to a job that failed, and returns its ID, or -1. known caches
// results.
func cause(b *jobspec.Batch, phase func(id int) state.Phase, id int, known map[int]int) int {
	found, ok := known[id]
	if ok {
		return found
	}
	found, blocked := -1, -1
	for _, n := range b.Jobs[id].Needs {
		switch p := phase(int(n)); {
		case p == state.Blocked:
			blocked = int(n)
		case p.Bad() && found < 0:
			found = int(n)
		}
	}
	if found < 0 && blocked >= 0 {
		found = cause(b, phase, blocked, known)
	}
	known[id] = found
	return found
}
