package runner

import (
	"fmt"
	"maps"
	"slices"
	"strconv"

	"gpurun/gpu"
	"gpurun/jobspec"
	"gpurun/runner/control"
	"gpurun/runner/sched"
	"gpurun/state"
)

// steer carries out a request that changes what the run does next.
func (l *loop) steer(r control.Request) (control.Reply, error) {
	if why := l.Core.Closing(); why != "" {
		return control.Reply{}, control.Refusal("nothing more starts in this run: " + why)
	}
	all := len(r.Jobs) == 0
	switch r.Op {
	case control.OpPause, control.OpResume:
		resume := r.Op == control.OpResume
		if !all {
			return l.onJobs(r, func(ids []int) sched.Event { return sched.PauseRequested{Jobs: ids, Resume: resume} })
		}
		return control.Reply{Said: []string{l.pause(resume)}}, nil
	case control.OpRetry:
		return l.onJobs(r, func(ids []int) sched.Event { return sched.RetryRequested{Jobs: ids} })
	case control.OpSet:
		if !all || r.Set["priority"] != "" {
			return l.setPriority(r)
		}
		return l.set(r.Set)
	}
	return control.Reply{}, nil
}

// pause lets nothing more start, or things start again, and says what has changed.
func (l *loop) pause(resume bool) string {
	was := l.Core.Paused(-1)
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
		return "paused: nothing starts, and running jobs go on; gpurun resume takes it back"
	case !was && alone == 0:
		return "not paused"
	}
	said := "resumed"
	if !was {
		said = "not paused"
	}
	switch {
	case alone == 1:
		said += "; 1 job was paused by name and stays so: gpurun resume '*' lets it start"
	case alone > 1:
		said += fmt.Sprintf("; %d jobs were paused by name and stay so: gpurun resume '*' lets them start", alone)
	}
	return said
}

// staysSo returns why a pause, its end or a retry changes nothing for a job, or "".
func (l *loop) staysSo(op string, id int, p state.Phase) string {
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
	switch p {
	case state.Failed, state.Timeout, state.OOM, state.Stalled, state.Lost, state.Cancelled, state.Interrupted, state.Waiting:
		return ""
	case state.Blocked:
		return "blocked: retry what failed before it, and it runs then"
	case state.Running, state.Queued, state.Pending:
		return "already " + string(p)
	}
	return "did not fail: " + string(p)
}

// set changes settings for the rest of the run.
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
			r.Said = append(r.Said, fmt.Sprintf("%s is %s already", name, is))
		} else {
			r.Said = append(r.Said, fmt.Sprintf("%s is %s now, for the rest of this run; it was %s", name, is, was))
		}
	}
	ev.Batch, l.Batch = &b, &b
	set := map[string]string{} // another one: the files may be being read
	maps.Copy(set, l.reloads.set)
	maps.Copy(set, values)
	l.reloads.set = set
	l.step(ev)
	return r, nil
}

// open reports whether a job has yet to end in this run.
func (l *loop) open(id int) bool {
	p := l.Core.Phase(id)
	return p != "" && !p.Ended()
}

// setPriority changes the priority of some jobs for the rest of the run.
func (l *loop) setPriority(r control.Request) (control.Reply, error) {
	text, given := r.Set["priority"]
	switch {
	case len(r.Jobs) == 0:
		return control.Reply{}, fmt.Errorf("priority is a matter of jobs: add --job GLOB")
	case !given || len(r.Set) > 1:
		return control.Reply{}, fmt.Errorf("--job goes with priority alone: the other settings are the run's")
	}
	rank := sched.RankRequested{First: text == "first", Last: text == "last"}
	if n, err := strconv.Atoi(text); err == nil {
		rank.Priority = n
	} else if !rank.First && !rank.Last {
		return control.Reply{}, fmt.Errorf("priority: %q is not a whole number, first or last", text)
	}
	return l.onJobs(r, func(ids []int) sched.Event {
		rank.Jobs = ids
		return rank
	})
}

// A Ruler returns the rules for GPUs that follow from a batch's settings. It is an error if
// one of its jobs that wanted selects could never run then. fresh has been read from the
// files again, and nobody has looked at its jobs; nil if it was not.
type Ruler func(fresh, b *jobspec.Batch, wanted func(id int) bool) (gpu.Rules, error)
