package notify

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"gpurun/state"
	"gpurun/state/redact"
	"gpurun/state/schema"
)

// A Run says which run the news are of.
type Run struct {
	File string // its job files
	Host string
	Look string // the command that shows more: "gpurun status jobs.yaml"
}

// An item is one piece of news.
type item struct {
	on   string // its kind: one of settings.News
	text string
	job  *schema.NewsJob // or nil
	more int             // failed jobs that it counts without naming them
}

// maxJobs is how many jobs a message names.
const maxJobs = 20

// A desk makes news of what happens in a run. It is pure.
type desk struct {
	hide   func(string) string // takes out secrets; nil for those alone that tell themselves
	ran    bool                // something has started since the run was last done
	failed int                 // jobs, so far
	used   map[int]bool
	free   bool // it has been said that GPUs are free
}

// see returns what is new. s is nil if nothing but facts has come.
func (d *desk) see(facts []state.Fact, s *state.Snapshot) (items []item) {
	for i := range facts {
		switch f := &facts[i]; f.Kind {
		case state.KindStart:
			if d.used == nil {
				d.used = map[int]bool{}
			}
			d.ran, d.free = true, false
			for _, g := range f.GPUs {
				d.used[g] = true
			}
		case state.KindStalled:
			items = append(items, d.ofJob("stalled", f.Job, schema.Stalled, f.Reason, f.Log))
		}
	}
	if s == nil {
		return items
	}
	if more := s.Failed - d.failed; more > 0 {
		for i, j := range s.Fresh[max(0, len(s.Fresh)-more):] {
			kind := "failure"
			if d.failed == 0 && i == 0 {
				kind = "first_failure"
			}
			items = append(items, d.ofJob(kind, j.Job, schema.StateOf(j.End.State), j.End.Failure().Cause(), j.Log))
		}
		if more -= len(s.Fresh); more > 0 {
			items = append(items, item{on: "failure", text: fmt.Sprintf("and %d more failed", more), more: more})
		}
		d.failed = s.Failed
	}
	if free := d.idle(s); len(free) > 0 && !d.free {
		d.free = true
		items = append(items, item{on: "gpus_free", text: "no job waits any more, and " + gpus(free) + " free again"})
	}
	if s.Watching && d.ran {
		d.ran = false
		items = append(items, item{on: "done"})
	}
	return items
}

// idle returns the GPUs that the run has used and has no more use for, while it goes on.
func (d *desk) idle(s *state.Snapshot) (free []int) {
	if s.Counts[state.Pending]+s.Counts[state.Waiting]+s.Counts[state.Queued] > 0 || len(s.Running) == 0 {
		return nil
	}
	for g := range d.used {
		if !slices.ContainsFunc(s.Running, func(v state.View) bool { return slices.Contains(v.GPUs, g) }) {
			free = append(free, g)
		}
	}
	slices.Sort(free)
	return free
}

func gpus(ids []int) string {
	if len(ids) == 1 {
		return fmt.Sprintf("GPU %d is", ids[0])
	}
	return "GPUs " + strings.Trim(strings.ReplaceAll(fmt.Sprint(ids), " ", ", "), "[]") + " are"
}

func (d *desk) ofJob(kind, name string, s schema.State, why, log string) item {
	name, why = d.clean(name), d.clean(why)
	return item{on: kind, text: name + ": " + string(s) + ", " + why, job: &schema.NewsJob{Name: name, State: s, Text: why, Log: schema.Known(log)}}
}

// clean takes out secrets and what is no text.
func (d *desk) clean(s string) string {
	if d.hide != nil {
		s = d.hide(s)
	}
	return clean(s)
}

func clean(s string) string {
	return redact.Text(strings.Map(func(r rune) rune {
		if r < ' ' || r == 0x7f {
			return ' '
		}
		return r
	}, s))
}

// wanted returns those of the items that are wanted. The first failure is also one of failures.
func wanted(items []item, on []string) (list []item) {
	for _, it := range items {
		if slices.Contains(on, it.on) || it.on == "first_failure" && slices.Contains(on, "failure") {
			list = append(list, it)
		}
	}
	return list
}

// maxText bounds a message: chat services refuse what is much longer.
const maxText = 1500

// compose makes one message of items. With how, the run is over; s may be nil.
func compose(r Run, items []item, s *state.Snapshot, ran time.Duration, how string, now time.Time) schema.News {
	n := schema.News{Head: schema.At(now), On: []string{}, File: clean(r.File), Host: r.Host, Jobs: []schema.NewsJob{}}
	var lines, tail []string
	failed, stalled := 0, 0
	for _, it := range items {
		if !slices.Contains(n.On, it.on) {
			n.On = append(n.On, it.on)
		}
		failed += it.more
		if it.text == "" || slices.Contains(lines, it.text) { // stalled, and failed for that
			continue
		}
		lines = append(lines, it.text)
		switch {
		case it.job == nil:
			continue
		case it.on == "stalled":
			stalled++
		default:
			failed++
		}
		if len(n.Jobs) < maxJobs {
			n.Jobs = append(n.Jobs, *it.job)
		}
	}
	n.Title = fmt.Sprintf("%s on %s", n.File, n.Host)
	var what []string
	switch {
	case slices.Contains(n.On, "done"):
		what = append(what, how)
		if s != nil {
			what = append(what, counts(s.Counts))
		}
	case len(items) == 1:
		what, lines = append(what, items[0].text), nil
	default:
		if failed > 0 {
			what = append(what, fmt.Sprintf("%d failed", failed))
		}
		if stalled > 0 {
			what = append(what, fmt.Sprintf("%d stalled", stalled))
		}
		if len(what) == 0 {
			what, lines = append(what, lines[0]), lines[1:]
		}
	}
	n.Title += ": " + strings.Join(what, ", ")
	if s != nil {
		n.Counts = schema.CountsOf(s.Counts)
		if !slices.Contains(n.On, "done") {
			tail = append(tail, counts(s.Counts))
		}
		tail = append(tail, "after "+spell(ran))
	}
	if r.Look != "" {
		tail = append(tail, clean(r.Look))
	}
	n.Message = shorten(lines, tail)
	return n
}

// shorten joins lines; of too many, it leaves out the last before the tail.
func shorten(lines, tail []string) string {
	for i := range lines {
		if len(lines[i]) > 300 {
			lines[i] = strings.ToValidUTF8(lines[i][:300], "") + "…"
		}
	}
	end := tail
	for left := 1; ; left++ {
		text := strings.Join(slices.Concat(lines, end), "\n")
		if len(text) <= maxText || len(lines) == 0 {
			return text
		}
		lines, end = lines[:len(lines)-1], append([]string{fmt.Sprintf("… and %d lines more", left)}, tail...)
	}
}

// counts returns "12 succeeded, 2 failed".
func counts(of map[state.Phase]int) string {
	var parts []string
	for _, p := range []state.Phase{
		state.Succeeded, state.UpToDate, state.Failed, state.Timeout, state.OOM, state.Stalled, state.Lost, state.Blocked,
		state.Cancelled, state.Interrupted, state.Running, state.Queued, state.Waiting, state.Pending,
	} {
		if n := of[p]; n > 0 {
			parts = append(parts, fmt.Sprintf("%d %s", n, p))
		}
	}
	if len(parts) == 0 {
		return "no jobs"
	}
	return strings.Join(parts, ", ")
}

func spell(d time.Duration) string {
	switch {
	case d < time.Minute:
		return d.Round(time.Second).String()
	case d < time.Hour:
		return fmt.Sprintf("%dm", d/time.Minute)
	}
	return fmt.Sprintf("%dh%02dm", d/time.Hour, d%time.Hour/time.Minute)
}
