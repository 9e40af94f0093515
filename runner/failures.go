package runner

import (
	"gpurun/jobspec"
	"gpurun/state"
)

// maxFailures is how many failures the summary lists.
const maxFailures = 50

// A Last is the last attempt of a failed job.
type Last struct {
	Start, End state.Fact
	out        logPart
}

// Failures returns the jobs that failed, or whose retry was prevented by the end of the run, in
// batch order. It merges jobs that failed with the same error.
func Failures(b *jobspec.Batch, phase func(id int) state.Phase, last func(id int) (Last, bool)) []state.FailedJob {
	var list []state.FailedJob
	var alike state.Grouping
	blocked := blockedBy(b, phase)
	for id := range b.Jobs {
		p := phase(id)
		if p == state.Blocked || !p.Bad() && p != state.Interrupted {
			continue
		}
		l, ok := last(id)
		if !ok || p == state.Interrupted && l.End.UniID != "" {
			continue
		}
		name := b.Jobs[id].Name
		i := alike.Add(name, l.Start.Log, l.End.Failure())
		if i < 0 {
			continue
		}
		if i == len(list) && i < maxFailures {
			list = append(list, state.FailedJob{Job: name, Start: l.Start, End: l.End, Log: l.Start.Log, Tail: l.out.lastLines(5)})
		}
		if i < len(list) {
			list[i].Alike = alike.Groups[i]
			list[i].Blocked += blocked[id]
		}
	}
	return list
}

// Recorded returns a job's last attempt from its ledger.
func Recorded(r *state.Record) Last {
	return Last{
		Start: state.Fact{Time: r.Start, Log: r.Log, GPUs: r.GPUs},
		End:   r.Fact,
		out:   logOf(r.Log),
	}
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
