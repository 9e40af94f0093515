package notify

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"gpurun/jobspec"
	"gpurun/state"
	"gpurun/state/redact"
	"gpurun/state/schema"
)

// A Run identifies the run in a message.
type Run struct {
	File string // its job files
	Host string
	Look string // the command for details: "gpurun status jobs.yaml"
}

// An item is one event to report.
type item struct {
	on   string // its kind: one of settings.NotifyEvents or settings.JobNews, or "test"
	text string
	job  *schema.NotificationJob // or nil
	own  []jobspec.Notify        // targets of that job
	took float64                 // how long the job ran, in seconds
	more int                     // failed jobs that the item counts but does not name
}

// An event is a fact about a job of the batch.
type event struct {
	job int
	state.Fact
}

// maxJobs is how many jobs a message names.
const maxJobs = 20

// A collector turns facts and snapshots of a run into items. It has no side effects.
type collector struct {
	batch  *jobspec.Batch
	hide   func(string) string // masks secrets; if nil, only recognizable secrets are masked
	ran    bool                // a job has started since the run was last done
	failed int                 // jobs that have failed so far
	busy   map[int]bool        // GPUs in use since they were last reported as free
	logs   map[string]string   // logs of running attempts by uni_id, because later facts omit them
}

// collect returns new items. s is nil if there are only facts.
func (d *collector) collect(facts []event, s *schema.Status) (items []item) {
	for i := range facts {
		switch f := &facts[i]; f.Kind {
		case state.KindStart:
			d.ran = true
			d.markBusy(f.GPUs...)
			if d.logs == nil {
				d.logs = map[string]string{}
			}
			d.logs[f.UniID] = f.Log
		case state.KindStalled:
			items = append(items, d.jobItem("stalled", f.job, f.Job, state.Stalled, f.Reason, cmp.Or(f.Log, d.logs[f.UniID]), math.Inf(1)))
		case state.KindEnd:
			if f.State == state.Succeeded && len(d.targets(f.job)) > 0 {
				items = append(items, d.jobItem("success", f.job, f.Job, state.Succeeded, "after "+state.Spell(time.Duration(f.Seconds*1e9)), cmp.Or(f.Log, d.logs[f.UniID]), f.Seconds))
			}
			delete(d.logs, f.UniID)
		}
	}
	if s == nil {
		return items
	}
	if more := s.Live.Failed - d.failed; more > 0 {
		for i, j := range s.Live.Fresh[max(0, len(s.Live.Fresh)-more):] {
			kind := "failure"
			if d.failed == 0 && i == 0 {
				kind = "first_failure"
			}
			items = append(items, d.jobItem(kind, j.ID, j.Job, j.End.State, j.End.Failure().Cause(), j.Log, j.End.Seconds))
		}
		if more -= len(s.Live.Fresh); more > 0 {
			items = append(items, item{on: "failure", text: fmt.Sprintf("and %d more failed", more), more: more})
		}
		d.failed = s.Live.Failed
	}
	if free := d.freed(s); len(free) > 0 {
		items = append(items, item{on: "gpus_free", text: "no job is waiting, and " + gpus(free) + " free again"})
	}
	if s.Is(schema.RunWatching) && d.ran {
		d.ran = false
		items = append(items, item{on: "done"})
	}
	return items
}

// freed returns the GPUs that were in use by any user and that the run could take now. It returns
// none unless the run is active and none of its jobs is waiting.
func (d *collector) freed(s *schema.Status) (free []int) {
	idle := s.Counts[state.Pending]+s.Counts[state.Waiting]+s.Counts[state.Queued] == 0 && (s.Counts[state.Running] > 0 || s.Is(schema.RunWatching))
	for i := range s.Live.GPUs {
		switch g := &s.Live.GPUs[i]; {
		case g.Jobs > 0 || g.Others:
			d.markBusy(g.Index)
		case idle && g.Open && d.busy[g.Index]:
			delete(d.busy, g.Index)
			free = append(free, g.Index)
		}
	}
	return free
}

func (d *collector) markBusy(gpus ...int) {
	if d.busy == nil {
		d.busy = map[int]bool{}
	}
	for _, g := range gpus {
		d.busy[g] = true
	}
}

func gpus(ids []int) string {
	if len(ids) == 1 {
		return fmt.Sprintf("GPU %d is", ids[0])
	}
	return "GPUs " + strings.Trim(strings.ReplaceAll(fmt.Sprint(ids), " ", ", "), "[]") + " are"
}

func (d *collector) jobItem(kind string, id int, name string, s state.Phase, why, log string, took float64) item {
	name, why = d.clean(name), d.clean(why)
	return item{on: kind, text: name + ": " + string(s) + ", " + why, job: &schema.NotificationJob{Name: name, State: s, Text: why, Log: schema.Known(log)}, own: d.targets(id), took: took}
}

// targets returns the job's own notification targets.
func (d *collector) targets(id int) []jobspec.Notify {
	if d.batch == nil || id < 0 {
		return nil
	}
	return d.batch.Jobs[id].Spec.Notify
}

// clean masks secrets and control characters.
func (d *collector) clean(s string) string {
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

// wanted returns the items to send for one entry in the list of targets. A target may have an entry
// with a minimum duration and one without. If the job's own notify selects an item for the target, the
// item is sent only for the latter. The first failure counts as a failure, too.
func wanted(items []item, by *jobspec.Notify) (list []item) {
	for _, it := range items {
		as := asked(by.On, it.on)
		own := slices.IndexFunc(it.own, func(n jobspec.Notify) bool {
			return n.Same(*by) && asked(n.On, it.on) != "" && it.took >= n.MinDuration.Seconds()
		})
		if own >= 0 {
			as = asked(it.own[own].On, it.on)
		}
		if as != "" && (own < 0 || by.MinDuration == 0) {
			it.on = as
			list = append(list, it)
		}
	}
	return list
}

// asked returns the name under which a target has asked for an event; "" if it has not.
func asked(on []string, event string) string {
	switch {
	case slices.Contains(on, event):
		return event
	case event == "first_failure" && slices.Contains(on, "failure"):
		return "failure"
	}
	return ""
}

// maxText bounds a message, because chat services refuse much longer ones.
const maxText = 1500

// compose combines items into one message. If the run is done, how describes its end. s may be nil.
func compose(r Run, items []item, s *schema.Status, ran time.Duration, how string, now time.Time) schema.Notification {
	n := schema.Notification{Head: schema.At(now), On: []string{}, File: clean(r.File), Host: r.Host, Jobs: []schema.NotificationJob{}}
	var lines, tail []string
	tally := map[string]int{}
	for _, it := range items {
		if !slices.Contains(n.On, it.on) {
			n.On = append(n.On, it.on)
		}
		tally["failed"] += it.more
		if it.text == "" || slices.Contains(lines, it.text) { // the job stalled, and failed because of that
			continue
		}
		lines = append(lines, it.text)
		switch {
		case it.job == nil:
			continue
		case it.on == "stalled":
			tally["stalled"]++
		case it.on == "success":
			tally["succeeded"]++
		default:
			tally["failed"]++
		}
		if len(n.Jobs) < maxJobs {
			n.Jobs = append(n.Jobs, *it.job)
		}
	}
	n.Title = fmt.Sprintf("%s on %s", cut(n.File), n.Host)
	var what []string
	switch {
	case slices.Contains(n.On, "done"):
		what = append(what, how)
		if s != nil {
			what = append(what, schema.TallyOf(s.Counts, false).String())
		}
	case len(items) == 1:
		what, lines = append(what, items[0].text), nil
	default:
		for _, state := range []string{"failed", "stalled", "succeeded"} {
			if n := tally[state]; n > 0 {
				what = append(what, fmt.Sprintf("%d %s", n, state))
			}
		}
		if len(what) == 0 {
			what, lines = append(what, lines[0]), lines[1:]
		}
	}
	n.Title += ": " + strings.Join(what, ", ")
	if s != nil {
		n.Counts = s.Counts
		if !slices.Contains(n.On, "done") {
			tail = append(tail, schema.TallyOf(s.Counts, true).String())
		}
		tail = append(tail, "after "+state.Spell(ran))
	}
	if r.Look != "" {
		tail = append(tail, clean(r.Look))
	}
	n.Message = shorten(lines, tail)
	return n
}

// shorten joins lines. If there are too many, it drops the last lines but keeps the tail.
func shorten(lines, tail []string) string {
	for i := range lines {
		lines[i] = cut(lines[i])
	}
	end := tail
	for left := 1; ; left++ {
		text := strings.Join(slices.Concat(lines, end), "\n")
		if len(text) <= maxText || len(lines) == 0 {
			return text
		}
		lines, end = lines[:len(lines)-1], append([]string{fmt.Sprintf("… and %d more lines", left)}, tail...)
	}
}

// cut shortens a long line, or the names of many files.
func cut(line string) string {
	if len(line) > 300 {
		return strings.ToValidUTF8(line[:300], "") + "…"
	}
	return line
}
