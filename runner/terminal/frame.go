package terminal

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"gpurun/state"
	"gpurun/state/schema"
)

// A Frame is one drawing of the live view.
type Frame struct {
	Snap *schema.Status
	Now  time.Time
	Last func(log string) string // returns the last line of a log, cleaned; nil if logs are not shown
	Hint string                  // what the next key press does: "Ctrl-C again stops the running jobs"
}

// Rows draws the frame in at most size.Height-1 lines of at most size.Width-1 columns, so that no
// terminal wraps or scrolls. From top to bottom: the state line, each GPU with its jobs, other
// jobs, failures, and notices.
func (f Frame) Rows(size Size) []string {
	w, h := max(size.Width-1, 10), max(size.Height-1, 2)
	foot, rows := f.foot(w, h), f.rows()
	head := f.head(w, max(h-len(foot)-len(rows), 3))
	head = head[max(len(head)-h, 0):] // keep the last lines, which contain the estimated end of the run
	for i := range head {
		head[i] = FitMiddle(head[i], w)
	}
	foot = foot[:min(len(foot), max(h-len(head)-min(len(rows), 1), 0))]
	return slices.Concat(head, Layout(rows, w, h-len(head)-len(foot)), foot)
}

// head returns the state line. To fit the line into room rows, it shortens the bottleneck to as few
// as 12 columns.
func (f Frame) head(w, room int) []string {
	line, whole := CleanText(f.Snap.Line), CleanText(schema.Value(schema.Value(f.Snap.Live).Bottleneck))
	rows := Wrap(line, w, 2)
	for n := Width(whole); len(rows) > room && n > 12; n-- {
		rows = Wrap(strings.Replace(line, whole, Fit(whole, n), 1), w, 2)
	}
	return rows
}

// rows returns rows for each GPU, and one for each other running or queued job.
func (f Frame) rows() (rows []Row) {
	jobs := f.Snap.In(state.Running, state.Queued)
	for i := range f.Snap.GPUs {
		rows = append(rows, f.OnGPU(&f.Snap.GPUs[i], jobs)...)
	}
	for _, j := range jobs {
		if !slices.ContainsFunc(f.Snap.GPUs, func(g schema.GPU) bool { return j.Attempt.On(&g) }) {
			p := f.Job(j)
			p.Cells[colWhere] = Where(j)
			rows = append(rows, p)
		}
	}
	return rows
}

// Where returns where a job runs, or "queued".
func Where(j *schema.Job) string {
	if j.State == state.Queued {
		return "queued"
	}
	return place(j.Attempt.Node(), j.Attempt.Indices())
}

// Job returns the row of a job: its name, its progress or problem, and the last line of its log.
func (f Frame) Job(j *schema.Job) Row {
	a, log, color, end := j.Attempt, "", None, ""
	if f.Last != nil && a.Log != nil {
		log = f.Last(a.Log.Path)
	}
	if said := newest(a.Metrics); said != "" {
		log = said + "; " + log
	}
	if note := Note(j); note != "" {
		log = note + "; " + log
	}
	if a.N > 1 {
		log = fmt.Sprintf("attempt %d; %s", a.N, log)
	}
	switch {
	case j.State == state.Queued:
		// colWhere already says "queued".
	case a.Stopping != nil:
		end, log, color = "stopping", cmp.Or(saving[*a.Stopping], *a.Stopping), Yellow
	case a.Stalled != nil:
		idle, _, _ := strings.Cut(*a.Stalled, ";") // the rest names the jobs that wait for it
		end, log, color = "stalled "+idle[strings.LastIndex(idle, " for ")+5:], *a.Stalled, Yellow
	case a.Started == nil:
		end = "starting"
	default:
		ran := max(f.Now.Sub(*a.Started), 0)
		if part := schema.Value(a.Progress); part > 0 {
			if end = fmt.Sprintf("%.0f%%", 100*part); a.Steps != nil && *a.Steps < 1000 {
				end = fmt.Sprintf("%.0f/%d", part*float64(*a.Steps), *a.Steps)
			}
			end += fmt.Sprintf(" %s left", state.Spell(time.Duration(float64(ran)*(1-part)/part)))
		} else if a.Takes != nil {
			end = state.Spell(max(time.Duration(*a.Takes*1e9)-ran, ran/99)) + " left"
		} else {
			end = "for " + state.Spell(ran)
		}
	}
	return row(j.Name, end, strings.TrimSuffix(log, "; "), color)
}

// newest describes the metrics that a running job has reported: "acc 0.9123, loss 0.21".
func newest(metrics map[string]any) string {
	var words []string
	for _, name := range slices.Sorted(maps.Keys(metrics)) {
		if v, ok := metrics[name].(float64); ok {
			words = append(words, fmt.Sprintf("%s %.4g", CleanText(name), v))
		} else {
			words = append(words, CleanText(fmt.Sprintf("%s %v", name, metrics[name])))
		}
	}
	return strings.Join(words, ", ")
}

// Note returns a further remark about a job that has an attempt, or "".
func Note(j *schema.Job) string {
	switch b := j.Attempt.Background; {
	case j.Wait != nil:
		return j.Wait.Text
	case len(b) > 0:
		return "in the background: " + b[0].Command
	}
	return schema.Value(j.Attempt.Note)
}

// saving explains why an attempt stops, if another attempt follows.
var saving = map[string]string{state.WhyResize: "saving its work for a resize", state.WhyPreempted: "saving its work; it runs again later"}

// foot returns everything below the rows of GPUs and jobs.
func (f Frame) foot(w, h int) []string {
	s := f.Snap
	lines := failures(s, w, max(h/4, 1))
	if text := retries(s, f.Now); text != "" {
		lines = append(lines, Paint(Dim, Fit(text, w)))
	}
	for _, n := range notices(s, f.Hint) {
		lines = append(lines, wrapped(Yellow, CleanText(n), w)...)
	}
	return lines
}

// failures returns a row for each of the first failure groups.
func failures(s *schema.Status, w, room int) (rows []string) {
	for i, a := range s.Alike[:min(len(s.Alike), room)] {
		rest := ""
		if more := len(s.Alike) - room; more > 0 && i == room-1 {
			rest = ", +" + state.Count(more, "other error")
		}
		rows = append(rows, Paint(Red, "✗")+failure(a, w-1-len(rest))+rest)
	}
	return rows
}

// failure describes a failure group in at most w columns: the number of jobs, the cause, and what
// sets the jobs apart, or else their names.
func failure(a schema.Alike, w int) string {
	who, n := item(a.Jobs)
	if apart := schema.Value(a.Apart); a.Count > 1 && apart != "" {
		who = strings.TrimPrefix(apart, "all jobs with ")
	} else if a.Count > n {
		who += fmt.Sprintf(" and %d more", a.Count-n)
	}
	cause := CleanText(a.Cause.Brief()) // omits why there was no retry; the line for the attempt's end says so
	head := fmt.Sprintf(" %d ", a.Count)
	w -= len(head + " ()")
	who = FitMiddle(CleanText(who), max(w/2, w-Width(cause)))
	return head + Fit(cause, w-Width(who)) + " (" + who + ")"
}

// These limit the live view: the number of rows of a notice, and the number of held groups.
const (
	maxReason = 4
	maxHeld   = 2
)

// wrapped breaks s into at most maxReason rows.
func wrapped(c Color, s string, w int) []string {
	rows := Wrap(s, w, 2)
	if len(rows) > maxReason {
		rows = rows[:maxReason]
		rows[maxReason-1] += " …"
	}
	for i := range rows {
		rows[i] = Paint(c, Fit(rows[i], w))
	}
	return rows
}

// notices returns messages about the run as a whole.
func notices(s *schema.Status, hint string) []string {
	l := schema.Value(s.Live)
	n := slices.Clone(l.Silent)
	if len(l.Others) > 0 {
		n = append(n, "also waiting for GPUs: "+strings.Join(l.Others, ", "))
	}
	if l.Kept != nil {
		n = append(n, *l.Kept)
	}
	for _, h := range l.Held[:min(len(l.Held), maxHeld)] {
		n = append(n, HeldLine(h))
	}
	switch {
	case l.Unread != nil:
		n = append(n, "cannot read the GPUs: "+*l.Unread)
	case l.Stale != nil:
		n = append(n, fmt.Sprintf("GPU readings are %d s old", int(*l.Stale)))
	}
	switch {
	case hint != "":
		n = append(n, hint)
	case l.Draining != nil:
		n = append(n, "no more jobs start: "+*l.Draining)
	case s.Is(schema.RunWatching):
		n = append(n, "all done; watching the job files for changes")
	}
	return n
}
