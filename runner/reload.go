package runner

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"gpurun/jobspec"
	"gpurun/runner/codecopy"
	"gpurun/runner/control"
	"gpurun/runner/files"
	"gpurun/runner/sched"
	"gpurun/state"
)

// A Reader reloads the run's job files with the run's own flags, except that the values in set take
// precedence. It is called outside the loop.
type Reader func(set map[string]string) (Reading, error)

// A Reading is the result of a reload. Selected and Forced are indexed by job; nil selects all and
// forces none.
type Reading struct {
	Batch            *jobspec.Batch
	Code             []*codecopy.Tree
	Messages         []string
	Selected, Forced []bool
}

// A Mistake explains why a reload changes nothing, in the format of gpurun check.
type Mistake struct {
	Text  string
	Lines []string
}

func (m *Mistake) Error() string { return m.Text }

// reloads tracks requests to reload the job files.
type reloads struct {
	busy    bool // a reload is in progress
	waiting []func(control.Reply)
	set     map[string]string         // settings that users have changed in this run
	jobs    map[int]map[string]string // keys that users have changed, by job
	beside  []sched.Beside            // moves of jobs in the queue
}

// reload reloads the job files and answers with the result. Requests during a reload wait for the
// next one, because the current one may miss the latest changes.
func (l *loop) reload(answer func(control.Reply)) {
	refused := ""
	switch {
	case l.Reread == nil:
		refused = "this run cannot reread its files"
	case l.Core.Closing() != "":
		refused = "this run starts no more jobs: " + l.Core.Closing()
	case !l.Core.Begun():
		refused = "the run is still checking for jobs of an earlier run: try again in a moment"
	}
	if refused != "" {
		answer(control.Reply{Err: refused, Refused: true})
		return
	}
	l.reloads.waiting = append(l.reloads.waiting, answer)
	if !l.reloads.busy {
		l.reread()
	}
}

func (l *loop) reread() {
	answers, set := l.reloads.waiting, l.reloads.set
	l.reloads.busy, l.reloads.waiting = true, nil
	l.step(sched.Rereading{On: true})
	l.offload(func() func() {
		next, err := l.Reread(set)
		return func() {
			said := ""
			if err == nil {
				said, err = l.apply(next)
			}
			r := control.Reply{Messages: []string{said}}
			if err != nil {
				r = mistaken(err)
				l.step(sched.Rereading{})
			}
			for _, answer := range answers {
				answer(r)
			}
			if l.reloads.busy = len(l.reloads.waiting) > 0; l.reloads.busy && !l.finished {
				l.reread()
			}
		}
	})
}

// reportReload shows the result of a reload to the run's user.
func (l *loop) reportReload(r control.Reply) {
	if r.Err != "" {
		l.warn("cannot reread the job files: " + strings.Join(append([]string{r.Err}, r.Lines...), "\n"))
		return
	}
	if l.Say != nil {
		l.Say(strings.Join(r.Messages, "; "))
	}
}

func mistaken(err error) control.Reply {
	r := control.Reply{Err: err.Error(), Refused: true}
	if m := (*Mistake)(nil); errors.As(err, &m) {
		r.Lines = m.Lines
	}
	return r
}

// apply switches the run to the reloaded files, and describes the changes.
func (l *loop) apply(next Reading) (said string, err error) {
	if why := l.Core.Closing(); why != "" {
		return "", control.Refusal("this run starts no more jobs: " + why)
	}
	was := len(l.Batch.Jobs)
	b, at := l.Batch.Continue(next.Batch)
	next.Messages = append(next.Messages, l.reapplyKeys(b, at)...)
	ev := sched.Reloaded{Batch: b, At: at, Selected: remap(next.Selected, at), Forced: remap(next.Forced, at)}
	in := func(id int) bool { return at[id] >= 0 && (ev.Selected == nil || ev.Selected[id]) }
	wanted := func(id int) bool {
		if id < was {
			return in(id) && l.open(id)
		}
		r := l.Core.History().Of(b.Jobs[id].File, b.Jobs[id].Key.String())
		return in(id) && (r == nil || r.State != state.Succeeded || r.Forgotten)
	}
	if ev.Rules, err = l.Rules(next.Batch, b, wanted); err != nil {
		return "", err
	}
	check := make([]bool, len(b.Jobs))
	for id := range check {
		check[id] = in(id) && (id >= was || slices.Contains(sched.Rejudged, l.Core.Phase(id)))
	}
	ev.Evidence = files.Evidence(b, l.Core.History(), sched.Options{Selected: check, Forced: ev.Forced})
	before := l.phasesOf(was)
	replaced := l.Code
	l.Batch, l.Code = b, next.Code
	for _, code := range replaced {
		l.use(code, 0) // the copy is removed once no attempt uses it
	}
	l.attempts.fresh = append(l.attempts.fresh, make([]bool, len(b.Jobs)-was)...)
	for _, a := range l.attempts.live {
		if a.job >= 0 {
			a.reports = b.Jobs[a.job].PruneMetric()
		}
	}
	for _, s := range l.Sinks {
		if s, ok := s.(interface{ Continue(*jobspec.Batch) }); ok {
			s.Continue(b)
		}
	}
	l.step(ev)
	if l.Taken != nil {
		l.Taken()
	}
	return strings.Join(append([]string{change(before, l.phasesOf(len(b.Jobs)))}, next.Messages...), "; "), nil
}

// remap maps a property from the reloaded batch's jobs to the run's jobs.
func remap(of []bool, at []int32) []bool {
	if of == nil {
		return nil
	}
	all := make([]bool, len(at))
	for id, i := range at {
		all[id] = i >= 0 && of[i]
	}
	return all
}

func (l *loop) phasesOf(n int) []state.Phase {
	all := make([]state.Phase, n)
	for id := range all {
		all[id] = l.Core.Phase(id)
	}
	return all
}

func change(before, now []state.Phase) string {
	joined, done, left := 0, 0, 0
	for id, p := range now {
		was := state.Phase("")
		if id < len(before) {
			was = before[id]
		}
		switch {
		case was == "" && p != "" && p.Ended():
			done++
		case was == "" && p != "":
			joined++
		case was != "" && p == "":
			left++
		}
	}
	var parts []string
	for _, part := range []struct {
		n    int
		text string
	}{{joined, "new"}, {done, "new but up to date"}, {left, "no longer part of the run"}} {
		if part.n > 0 {
			parts = append(parts, fmt.Sprintf("%d %s", part.n, part.text))
		}
	}
	if parts == nil {
		return "reread; no jobs added or removed"
	}
	return "reread; jobs: " + strings.Join(parts, ", ")
}
