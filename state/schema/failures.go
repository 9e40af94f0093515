package schema

import (
	"fmt"
	"hash/fnv"
	"maps"
	"math/bits"
	"slices"
	"strings"

	"gpurun/gpu"
	"gpurun/state"
)

// These bound the work of analyzing failures.
const (
	maxAlikeJobs = 20 // named per group
	maxApart     = 20 // groups for which Apart is determined
	maxShared    = 12 // parameters whose combinations are tried
)

// Failures groups jobs that failed with the same error, largest group first. The second result is,
// for each job, the index of its group, or -1 if it is in none.
func Failures(jobs []*Job) (groups []Alike, of []int) {
	of = make([]int, len(jobs))
	var members [][]int
	at := map[string]int{}
	for i, j := range jobs {
		kind := KindOf(j)
		if of[i] = -1; kind == nil {
			continue
		}
		g, known := at[*kind]
		if !known {
			g = len(members)
			at[*kind], members = g, append(members, nil)
		}
		members[g] = append(members[g], i)
	}
	slices.SortStableFunc(members, func(a, b []int) int { return len(b) - len(a) })
	groups = make([]Alike, len(members))
	for g, ids := range members {
		list := make([]*Job, len(ids))
		for n, i := range ids {
			list[n], of[i] = jobs[i], g
		}
		first := list[0]
		a := Alike{
			Kind: KindOf(first), Cause: *first.Cause, State: first.State, Count: len(list), Jobs: []string{},
			UniID: first.Attempt.UniID, Log: Known(Value(first.Attempt.Log).Path),
		}
		for _, j := range list[:min(len(list), maxAlikeJobs)] {
			a.Jobs = append(a.Jobs, j.Name)
		}
		if g < maxApart {
			a.apart(list, jobs)
		}
		groups[g] = a
	}
	return groups, of
}

// KindOf returns a string that is equal for jobs that failed with the same error, or nil for a job
// that did not fail.
func KindOf(j *Job) *string {
	if !j.State.Bad() || j.State == state.Blocked || j.State == state.Cancelled || j.Cause == nil || j.Attempt == nil {
		return nil
	}
	f, h := state.Failure{State: j.State, ErrorType: string(j.Cause.Code), ExitCode: j.Attempt.ExitCode, Reason: j.Cause.Text}, fnv.New64a()
	h.Write([]byte(f.Kind()))
	return Known(fmt.Sprintf("%x", h.Sum64()))
}

// For each group that consists of a single retried job, Tried makes Apart list all GPUs that the
// job's last run tried: "GPU 1, then GPU 4".
func Tried(groups []Alike, attempts func() []AttemptRow) {
	var all []AttemptRow
	for i := range groups {
		g, on, last := &groups[i], "", ""
		if g.Count > 1 || !strings.Contains(Value(g.Apart), "attempts") {
			continue
		}
		if all == nil {
			all = attempts()
		}
		for _, a := range all {
			switch name := onGPU(&a.Attempt); {
			case a.Job != g.Jobs[0] || name == "" || a.N > 1 && name == last:
			case a.N == 1:
				on, last = name, name
			default:
				on, last = on+", then "+name, name
			}
		}
		if last != "" {
			g.Apart = Known(strings.Replace(*g.Apart, last, on, 1))
		}
	}
}

// apart sets what distinguishes the jobs of a group: the smallest combination of parameters that
// they share and no success has, else the GPU that they share and no success used. For a single
// job, it omits parameters, since they are in the job's name.
func (a *Alike) apart(list, all []*Job) {
	var words []string
	succeeded := func(j *Job) bool { return j.State == state.Succeeded || j.State == state.UpToDate }
	if a.Params = combination(list, all, succeeded); a.Params != nil {
		having := 0
		for _, j := range all {
			if has(j, a.Params) {
				having++
			}
		}
		for _, k := range slices.Sorted(maps.Keys(a.Params)) {
			words = append(words, k+"="+a.Params[k])
		}
		with := strings.Join(words, " ")
		if words = []string{with}; having == len(list) {
			words[0] = "all jobs with " + with
		}
	} else if g := onGPU(list[0].Attempt); g != "" && !slices.ContainsFunc(list, func(j *Job) bool { return onGPU(j.Attempt) != g }) &&
		(len(list) == 1 || slices.ContainsFunc(all, succeeded) && !slices.ContainsFunc(all, func(j *Job) bool { return succeeded(j) && onGPU(j.Attempt) == g })) {
		if words = []string{g}; len(list) > 1 {
			words[0] = "all on " + g
		}
	}
	if len(list) == 1 && list[0].Attempts > 1 {
		words = append(words, fmt.Sprintf("%d attempts", list[0].Attempts))
	}
	if a.Cause.Code == state.CauseOOMGPU {
		var most AttemptGPU
		for _, j := range list {
			for _, g := range j.Attempt.GPUs {
				if g.Peak != nil && (most.Peak == nil || *g.Peak > *most.Peak) {
					most = g
				}
			}
		}
		if most.Peak != nil {
			words = append(words, fmt.Sprintf("peak %s of %s", most.Peak.Round(), most.Granted.Round()))
		}
	}
	a.Apart = Known(strings.Join(words, "; "))
}

// onGPU returns the names of an attempt's GPUs.
func onGPU(a *Attempt) string {
	if a == nil || len(a.GPUs) == 0 {
		return ""
	}
	name := gpu.List(a.Indices())
	if h := a.Host; h != nil && a.JobID != nil {
		name = *h + ", " + name
	}
	return name
}

// has reports whether a job has all of these parameter values.
func has(j *Job, params map[string]string) bool {
	for k, v := range params {
		if is, known := j.Params[k]; !known || is != v {
			return false
		}
	}
	return true
}

// combination returns the smallest set of parameters that the jobs in list share and no success in
// all has. It returns nil if there is none, or if there is no success to compare with.
func combination(list, all []*Job, succeeded func(*Job) bool) map[string]string {
	if len(list) < 2 {
		return nil
	}
	var names []string
	for _, k := range slices.Sorted(maps.Keys(list[0].Params)) {
		one := map[string]string{k: list[0].Params[k]}
		if len(names) < maxShared && !slices.ContainsFunc(list, func(j *Job) bool { return !has(j, one) }) {
			names = append(names, k)
		}
	}
	found := map[uint]bool{} // parameters that successes share with the jobs, as bit sets
	for _, j := range all {
		if !succeeded(j) {
			continue
		}
		mask := uint(0)
		for i, k := range names {
			if v, known := j.Params[k]; known && v == list[0].Params[k] {
				mask |= 1 << i
			}
		}
		found[mask] = true
	}
	best, none := uint(0), len(found) == 0
	for c := uint(1); c < 1<<len(names) && !none; c++ {
		if best != 0 && bits.OnesCount(c) >= bits.OnesCount(best) {
			continue
		}
		free := true
		for mask := range found {
			free = free && mask&c != c
		}
		if free {
			best = c
		}
	}
	if best == 0 {
		return nil
	}
	params := map[string]string{}
	for i, k := range names {
		if best&(1<<i) != 0 {
			params[k] = list[0].Params[k]
		}
	}
	return params
}
