package prune

import (
	"cmp"
	"slices"

	"gpurun/jobspec"
	"gpurun/state"
)

// A Past is a job that ran to its end. Its points came at even intervals.
type Past struct {
	Group          uint64
	Rule           jobspec.Prune
	GPUs           int
	Start, Seconds float64
	Points         []state.Point
}

// An Outcome is what a rule would have done to past jobs. Times are GPU seconds.
type Outcome struct {
	Pruned      int
	Took, Saved float64
	Groups      int
	Kept        int     // groups that would have kept their best job
	Lost        float64 // by how much the best value of a group would have been worse, at most
}

// Replay applies other shares of the rules to past jobs, at the times at which they ran.
func Replay(jobs []Past, keep float64) (o Outcome) {
	var p Policy
	p.Clear()
	type report struct {
		at   float64
		job  int
		step state.Point
	}
	var all []report
	for i, j := range jobs {
		p.Join(int32(i), j.Group, nil)
		o.Took += float64(j.GPUs) * j.Seconds
		for n, x := range j.Points {
			all = append(all, report{j.Start + j.Seconds*float64(n+1)/float64(len(j.Points)), i, x})
		}
	}
	slices.SortStableFunc(all, func(a, b report) int { return cmp.Compare(a.at, b.at) })
	stopped := map[int32]bool{}
	for _, r := range all {
		if id := int32(r.job); !stopped[id] {
			p.Set(id, p.Curve(id).Add(r.step))
		}
		for _, id := range p.jobs[jobs[r.job].Group] {
			j := &jobs[id]
			left, rule := j.Start+j.Seconds-r.at, j.Rule
			if rule.Keep = keep; len(p.Curve(id)) > 0 && left > 0 && !stopped[id] && p.Why(id, rule) != "" {
				stopped[id] = true
				o.Pruned++
				o.Saved += float64(j.GPUs) * left
			}
		}
	}
	for _, ids := range p.jobs {
		best := func(of func(id int32) state.Curve) (best float64) {
			highest := jobs[ids[0]].Rule.Goal == jobspec.Max
			var all state.Curve
			for i, id := range ids {
				c := of(id)
				if b, ok := c.Best(c.Last(), highest); ok {
					all = append(all, state.Point{Step: float64(i), Value: b})
				}
			}
			best, _ = all.Best(float64(len(ids)), highest)
			return best
		}
		whole := best(func(id int32) state.Curve { return state.Curve{}.Add(jobs[id].Points...) })
		lost := whole - best(p.Curve)
		if o.Groups++; lost == 0 {
			o.Kept++
		}
		o.Lost = max(o.Lost, lost, -lost)
	}
	return o
}
