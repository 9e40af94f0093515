package runner

import (
	"cmp"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strconv"
	"strings"

	"gpurun/gpu"
	"gpurun/jobspec"
	"gpurun/runner/control"
	"gpurun/runner/sched"
	"gpurun/state"
)

// steer carries out a request that changes which jobs the run starts.
func (l *loop) steer(r control.Request) (control.Reply, error) {
	all := len(r.Jobs) == 0
	if why := l.Core.Closing(); why != "" && !(why == sched.Drained && r.Op == control.OpResume && all) {
		return control.Reply{}, control.Refusal("this run starts no more jobs: " + why)
	}
	switch r.Op {
	case control.OpPause, control.OpResume:
		resume := r.Op == control.OpResume
		if !all {
			return l.onJobs(r, func(ids []int) sched.Event { return sched.PauseRequested{Jobs: ids, Resume: resume} })
		}
		return control.Reply{Messages: []string{l.pause(resume)}}, nil
	case control.OpRetry:
		return l.onJobs(r, func(ids []int) sched.Event { return sched.RetryRequested{Jobs: ids} })
	case control.OpSet:
		for key := range r.Set {
			switch of := slices.Contains(JobKeys, key); {
			case of && all:
				return control.Reply{}, fmt.Errorf("%s is a job key: add --job GLOB", key)
			case !of && !all:
				return control.Reply{}, fmt.Errorf("%s is not a job key: with --job, you can set %s", key, strings.Join(JobKeys, ", "))
			}
		}
		if !all {
			return l.setJobs(r)
		}
		return l.set(r.Set)
	}
	return control.Reply{}, nil
}

// pause pauses or resumes the run and describes the change.
func (l *loop) pause(resume bool) string {
	was := l.Core.Paused(-1) || l.Core.Closing() != ""
	l.step(sched.PauseRequested{All: true, Resume: resume})
	alone := 0
	for id := range l.Batch.Jobs {
		if p := l.Core.Phase(id); l.Core.Paused(id) && p != "" && !p.Ended() {
			alone++
		}
	}
	switch {
	case !resume && was:
		return "already paused"
	case !resume:
		return "paused: no more jobs start, but running jobs continue; gpurun resume undoes this"
	case !was && alone == 0:
		return "not paused"
	}
	said := "resumed"
	if !was {
		said = "not paused"
	}
	switch {
	case alone == 1:
		said += "; 1 job was paused by name and stays paused: gpurun resume '*' starts it"
	case alone > 1:
		said += fmt.Sprintf("; %d jobs were paused by name and stay paused: gpurun resume '*' starts them", alone)
	}
	return said
}

// unaffected returns why a pause, resume or retry changes nothing for a job, or "".
func (l *loop) unaffected(op string, id int, p state.Phase) string {
	paused := l.Core.Paused(id)
	switch {
	case op == control.OpPause && paused:
		return "already paused"
	case op == control.OpResume && !paused:
		return "not paused"
	case op == control.OpPause && p.Ended():
		return "already ended"
	case op != control.OpRetry || l.Core.Held(id):
		return ""
	}
	if cause := l.Core.Blocked(id); p == state.Pruned && cause != nil {
		return cause.Text + "; retry that job first"
	}
	switch p {
	case state.Failed, state.Timeout, state.OOM, state.Stalled, state.Pruned, state.Lost, state.Cancelled, state.Interrupted, state.Waiting:
		return ""
	case state.Blocked:
		return "blocked; retry the job that it needs"
	case state.Running, state.Queued, state.Pending:
		return "already " + string(p)
	}
	return "did not fail: " + string(p)
}

func (l *loop) set(values map[string]string) (control.Reply, error) {
	b := *l.Batch
	var err error
	if b.Settings, err = b.Settings.Change(values); err != nil {
		return control.Reply{}, err
	}
	var ev sched.SettingsChanged
	if l.Prober != nil {
		if ev.Rules, err = l.Rules(nil, &b, l.open); err != nil {
			return control.Reply{}, control.Refusal(err.Error())
		}
	}
	var r control.Reply
	for _, name := range slices.Sorted(maps.Keys(values)) {
		was, is := l.Batch.Settings.Shown(name), b.Settings.Shown(name)
		if was == is {
			r.Messages = append(r.Messages, fmt.Sprintf("%s is already %s", name, is))
		} else {
			r.Messages = append(r.Messages, fmt.Sprintf("%s is now %s for the rest of this run (was %s)", name, is, was))
		}
	}
	ev.Batch, l.Batch = &b, &b
	set := map[string]string{} // a copy, because a reload may be using the old map
	maps.Copy(set, l.reloads.set)
	maps.Copy(set, values)
	l.reloads.set = set
	l.step(ev)
	return r, nil
}

// open reports whether a job has not ended in this run.
func (l *loop) open(id int) bool {
	p := l.Core.Phase(id)
	return p != "" && !p.Ended()
}

// JobKeys lists the keys that gpurun set --job can change.
var JobKeys = append(slices.Clip(jobspec.Changeable), "before", "after")

// setJobs changes keys or queue positions of jobs for the rest of the run.
func (l *loop) setJobs(r control.Request) (rep control.Reply, err error) {
	named, err := l.match(r.Jobs, r.File)
	if err != nil {
		return rep, err
	}
	place, other, name := sched.Beside{After: r.Set["after"] != ""}, (*jobspec.Job)(nil), cmp.Or(r.Set["before"], r.Set["after"])
	if name != "" {
		others, err := l.match([]string{name}, "")
		if err != nil {
			return rep, err
		}
		other, place.Other = &l.Batch.Jobs[others[0]], int32(others[0])
		if len(others) > 1 || r.Set["before"] != "" && place.After {
			return rep, fmt.Errorf("set either before or after, to exactly one job")
		}
	}
	low, high, in := 0, 0, make([]bool, len(l.Batch.Jobs))
	for _, id := range named {
		in[id] = true
	}
	for id := range in {
		if p := l.Batch.Jobs[id].Spec.Priority; !in[id] && !l.Core.Gone(id) {
			low, high = min(low, p), max(high, p)
		}
	}
	b := *l.Batch
	b.Jobs = slices.Clone(b.Jobs)
	ev, asked := sched.JobsChanged{Batch: &b}, map[int]map[string]string{}
	maps.Copy(asked, l.reloads.jobs)
	for _, id := range named {
		j := &b.Jobs[id]
		if why := l.keeps(r.Op, id); why != "" {
			rep.Keep(why, j.Name)
			continue
		}
		values := map[string]string{}
		maps.Copy(values, asked[id])
		maps.Copy(values, r.Set)
		delete(values, "before")
		delete(values, "after")
		if edge, ok := map[string]int{"first": high + 1, "last": low - 1}[r.Set["priority"]]; ok {
			values["priority"] = strconv.Itoa(edge)
		}
		was := j.Spec
		if j.Spec, err = was.Change(values); err != nil {
			return rep, err
		}
		there := other == nil
		for _, m := range l.reloads.beside { // the last one applies
			if _, in := slices.BinarySearch(m.Jobs, int32(id)); in && other != nil {
				there = m.Other == place.Other && m.After == place.After
			}
		}
		switch p, why := l.Core.Phase(id), l.Core.Unfit(j.Spec); {
		case why != "" && l.Core.Unfit(was) == "": // otherwise the host's rules currently exclude it, whatever its keys
			return rep, control.Refusal(fmt.Sprintf("%s could never run: %s", j.Name, why))
		case other != nil && (j.Spec.Priority != other.Spec.Priority || j.Queue != other.Queue):
			return rep, control.Refusal(fmt.Sprintf("%s and %s differ in priority or queue: before and after need jobs with the same priority and queue", j.Name, other.Name))
		case reflect.DeepEqual(was, j.Spec) && there:
			rep.Keep("unchanged", j.Name)
			continue
		case p == state.Running || p == state.Queued || p.Ended():
			rep.Keep(fmt.Sprintf("%s; the change applies to its next attempt", p), j.Name)
		default:
			rep.Done = append(rep.Done, j.Name)
		}
		asked[id] = values
		ev.Jobs, place.Jobs = append(ev.Jobs, id), append(place.Jobs, int32(id))
	}
	ev.Beside = l.reloads.beside
	if other != nil {
		ev.Beside = append(slices.Clip(ev.Beside), place)
	}
	l.Batch, l.reloads.jobs, l.reloads.beside = &b, asked, ev.Beside
	l.step(ev)
	return rep, nil
}

// reapplyKeys applies the keys that were set in this run to reloaded jobs.
func (l *loop) reapplyKeys(b *jobspec.Batch, at []int32) (said []string) {
	for id, values := range l.reloads.jobs {
		j := &b.Jobs[id]
		if spec, err := j.Spec.Change(values); err == nil {
			j.Spec = spec
		} else if at[id] >= 0 {
			said = append(said, fmt.Sprintf("the values set for %s no longer apply: %s", j.Name, err))
		}
	}
	slices.Sort(said)
	return said
}

// A Ruler returns the GPU rules for a batch's settings. It returns an error if a job selected by
// wanted could never run under these rules. fresh is a reloaded batch whose jobs have not been
// checked yet, or nil.
type Ruler func(fresh, b *jobspec.Batch, wanted func(id int) bool) (gpu.Rules, error)
