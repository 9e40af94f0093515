package runner

import (
	"errors"
	"fmt"
	"strings"

	"gpurun/jobspec"
	"gpurun/runner/codecopy"
	"gpurun/runner/control"
	"gpurun/runner/files"
	"gpurun/runner/sched"
	"gpurun/state"
)

// A Reader reloads the job files of the run, with the run's own flags and these settings on top.
// It is called outside the loop.
type Reader func(set map[string]string) (Reading, error)

// A Reading is the content of reloaded job files. Selected and Forced are by job; nil for all and
// for none.
type Reading struct {
	Batch            *jobspec.Batch
	Code             []*codecopy.Tree
	Said             []string // what has come of that
	Selected, Forced []bool
}

// A Mistake reports why a reload changes nothing, as check does.
type Mistake struct {
	Text  string
	Lines []string
}

func (m *Mistake) Error() string { return m.Text }

// reloads tracks requests to reload the job files.
type reloads struct {
	busy    bool // they are being read
	waiting []func(control.Reply)
	set     map[string]string         // settings that people have changed in this run
	jobs    map[int]map[string]string // keys of jobs, likewise
	beside  []sched.Beside            // places of jobs, likewise
}

// reload reloads the job files and answers with the result. Requests during a reload wait for the
// next one, because it may have missed the latest changes.
func (l *loop) reload(answer func(control.Reply)) {
	refused := ""
	switch {
	case l.Reread == nil:
		refused = "this run cannot read its files again"
	case l.Core.Closing() != "":
		refused = "no more jobs start in this run: " + l.Core.Closing()
	case !l.Core.Begun():
		refused = "the run is still looking for jobs of an earlier run: try again in a moment"
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
	l.beside(func() func() {
		next, err := l.Reread(set)
		return func() {
			said := ""
			if err == nil {
				said, err = l.goOnWith(next)
			}
			r := control.Reply{Said: []string{said}}
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

// told shows the result of a reload to the user of the run.
func (l *loop) told(r control.Reply) {
	if r.Err != "" {
		l.warn("reread the job files: " + strings.Join(append([]string{r.Err}, r.Lines...), "\n"))
		return
	}
	if l.Say != nil {
		l.Say(strings.Join(r.Said, "; "))
	}
}

// mistaken returns the reply for files with mistakes.
func mistaken(err error) control.Reply {
	r := control.Reply{Err: err.Error(), Refused: true}
	if m := (*Mistake)(nil); errors.As(err, &m) {
		r.Lines = m.Lines
	}
	return r
}

// goOnWith continues with the reloaded files, and describes the changes.
func (l *loop) goOnWith(next Reading) (said string, err error) {
	if why := l.Core.Closing(); why != "" {
		return "", control.Refusal("no more jobs start in this run: " + why)
	}
	was := len(l.Batch.Jobs)
	b, at := l.Batch.Continue(next.Batch)
	next.Said = append(next.Said, l.askAgain(b, at)...)
	ev := sched.Reloaded{Batch: b, At: at, Selected: spread(next.Selected, at), Forced: spread(next.Forced, at)}
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
	fresh := make([]bool, len(b.Jobs))
	for id := was; id < len(b.Jobs); id++ {
		fresh[id] = in(id)
	}
	ev.Evidence = files.Evidence(b, l.Core.History(), sched.Options{Selected: fresh, Forced: ev.Forced})
	before := l.everyPhase(was)
	replaced := l.Code
	l.Batch, l.Code = b, next.Code
	for _, code := range replaced {
		l.use(code, 0) // it goes once nobody is in it
	}
	l.attempts.fresh = append(l.attempts.fresh, make([]bool, len(b.Jobs)-was)...)
	for _, s := range l.Sinks {
		if s, ok := s.(interface{ Continue(*jobspec.Batch) }); ok {
			s.Continue(b)
		}
	}
	l.step(ev)
	if l.Taken != nil {
		l.Taken()
	}
	return strings.Join(append([]string{change(before, l.everyPhase(len(b.Jobs)))}, next.Said...), "; "), nil
}

// spread maps a property of the reloaded batch's jobs to the jobs of the run.
func spread(of []bool, at []int32) []bool {
	if of == nil {
		return nil
	}
	all := make([]bool, len(at))
	for id, i := range at {
		all[id] = i >= 0 && of[i]
	}
	return all
}

// everyPhase returns the phases of the run's first n jobs.
func (l *loop) everyPhase(n int) []state.Phase {
	all := make([]state.Phase, n)
	for id := range all {
		all[id] = l.Core.Phase(id)
	}
	return all
}

// change describes which jobs joined and left.
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
