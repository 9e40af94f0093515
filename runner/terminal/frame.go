package terminal

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"gpurun/state"
	"gpurun/state/schema"
)

// A Frame is everything that the live view shows at one moment.
type Frame struct {
	Snap *schema.Status
	Now  time.Time
	Last func(log string) string // returns the last line of a log, cleaned; nil shows none
	Hint string                  // what a key press does now: "Ctrl-C again stops the running jobs"
}

// Rows draws the frame in at most size.Height-1 lines of at most size.Width-1 columns,
// so that no terminal wraps or scrolls: running jobs, jobs that are backing off, the bar,
// and why the head of the queue is waiting.
func (f Frame) Rows(size Size) []string {
	w, h := max(size.Width-1, 10), max(size.Height-1, 2)
	foot := f.foot(w)
	foot = foot[:min(len(foot), h)]
	return append(f.jobs(w, h-len(foot)), foot...)
}

// jobs returns the lines of running jobs, in at most room rows.
func (f Frame) jobs(w, room int) []string {
	shown, more := append(f.Snap.In(state.Running), f.Snap.In(state.Queued)...), ""
	if len(shown) > room {
		keep := max(room-1, 0)
		more = fmt.Sprintf("  +%d more running", len(shown)-keep)
		shown = shown[:keep]
	}
	rows := make([][]string, len(shown))
	for i, j := range shown {
		rows[i] = []string{Label(j), Where(j), memory(j), Age(j, f.Now)}
	}
	cols, last := columnsOf(rows, w)
	lines := make([]string, 0, room)
	for i, j := range shown {
		lines = append(lines, f.job(j, rows[i], cols, last))
	}
	if more != "" && room > 0 {
		lines = append(lines, Paint(Dim, Fit(more, w)))
	}
	return lines
}

// Where says where a job runs, if it does.
func Where(j *schema.Job) string {
	if j.State == state.Queued {
		return "queued"
	}
	return place(Elsewhere(j), j.Attempt.Indices())
}

// Elsewhere names the node of a cluster that runs a job; "" for this host.
func Elsewhere(j *schema.Job) string {
	if j.Attempt.Submitted == nil {
		return ""
	}
	return schema.Value(j.Attempt.Host)
}

// columnsOf assigns columns to the parts of the jobs' lines, 0 to one that is left out,
// and the rest to the log lines. These shrink first, then the memory goes, then the GPUs
// and the time, then names are cut.
func columnsOf(rows [][]string, w int) (cols [4]int, last int) {
	for _, row := range rows {
		for i, cell := range row {
			cols[i] = max(cols[i], Width(cell))
		}
	}
	fixed := func() int {
		n := 2
		for _, c := range cols[1:] {
			if c > 0 {
				n += 2 + c
			}
		}
		return n
	}
	for _, i := range []int{2, 1, 3} {
		if fixed()+8 > w || i == 2 && w < 60 {
			cols[i] = 0
		}
	}
	cols[0] = max(min(cols[0], w-fixed(), max(w*2/5, 16)), 4)
	if last = w - fixed() - cols[0] - 2; last < 8 {
		last = 0
	}
	return cols, last
}

func (f Frame) job(j *schema.Job, cells []string, cols [4]int, last int) string {
	c := None
	if j.Attempt.Stopping != nil {
		c = Yellow
	}
	line := "  " + Paint(c, Pad(FitMiddle(cells[0], cols[0]), cols[0]))
	for i := 1; i < len(cells); i++ {
		if cols[i] > 0 {
			line += "  " + Pad(cells[i], cols[i])
		}
	}
	if last > 0 {
		line += "  " + Paint(Dim, Fit(f.says(j), last))
	}
	return strings.TrimRight(line, " ")
}

// says returns the end of a job's line: why it is being stopped, or that it does nothing, else
// the last line of its log.
func (f Frame) says(j *schema.Job) string {
	text, a := Stopping(j.Attempt), j.Attempt
	switch {
	case text != "":
		return text
	case a.Stalled != nil:
		return CleanText(*a.Stalled)
	case f.Last != nil && a.Log != nil:
		text = f.Last(a.Log.Path)
	}
	if note := Note(j); note != "" {
		return strings.TrimSuffix(CleanText(note)+"; "+text, "; ")
	}
	return text
}

// Note returns what else is to be said of a job that has an attempt, or "".
func Note(j *schema.Job) string {
	switch b := j.Attempt.Background; {
	case j.Wait != nil:
		return j.Wait.Text
	case len(b) > 0:
		return "in the background: " + b[0].Command
	}
	return schema.Value(j.Attempt.Note)
}

// Stopping returns why an attempt is being stopped, "" if it is not.
func Stopping(a *schema.Attempt) string {
	switch why := schema.Value(a.Stopping); why {
	case "":
		return ""
	case state.WhyResize:
		return "saving its work, for a resize"
	case state.WhyPreempted:
		return "saving its work; it runs again later"
	default:
		return "stopping: " + CleanText(why)
	}
}

// Age returns how long a job has been running, and what jobs like it take; nothing in a queue.
func Age(j *schema.Job, now time.Time) string {
	switch a := j.Attempt; {
	case j.State == state.Queued:
		return ""
	case a.Started == nil:
		return "starting"
	case a.Takes != nil:
		return Duration(now.Sub(*a.Started)) + " of ~" + Seconds(*a.Takes)
	default:
		return Duration(now.Sub(*a.Started))
	}
}

// Label returns a job's name, with its attempt unless it is the first.
func Label(j *schema.Job) string {
	if j.Attempt.N > 1 {
		return CleanText(j.Name) + " #" + strconv.Itoa(j.Attempt.N)
	}
	return CleanText(j.Name)
}

// memory returns what a job uses of what it asked for, summed over its GPUs.
func memory(j *schema.Job) string {
	if len(j.Attempt.GPUs) == 0 || Elsewhere(j) != "" {
		return ""
	}
	granted, used := j.Attempt.Memory()
	total := granted.Round()
	if used < 0 {
		return "?/" + total
	}
	text := used.Round()
	if n, unit, ok := strings.Cut(text, " "); ok && (used == 0 || strings.HasSuffix(total, " "+unit)) {
		text = n
	}
	return text + "/" + total
}

// foot returns everything below the running jobs.
func (f Frame) foot(w int) []string {
	var lines []string
	s := f.Snap
	if text := retries(s, f.Now); text != "" {
		lines = append(lines, Paint(Dim, Fit("  "+text, w)))
	}
	lines = append(lines, f.line(w)...)
	for _, n := range notices(s, f.Hint) {
		lines = append(lines, wrapped(Yellow, CleanText(n), w)...)
	}
	return lines
}

// maxReason bounds the rows of a reason in the live view.
const maxReason = 4

// wrapped returns s in a few rows that no terminal wraps.
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

// notices returns what the user must know about the run as a whole.
func notices(s *schema.Status, hint string) []string {
	l := s.Live
	if l == nil {
		l = &schema.Live{}
	}
	n := slices.Clone(l.Silent)
	if len(l.Others) > 0 {
		n = append(n, "also waiting for GPUs: "+strings.Join(l.Others, ", "))
	}
	if l.Kept != nil {
		n = append(n, *l.Kept)
	}
	n = append(n, alikeRows(l.Held, s.Alike)...)
	switch {
	case l.Unread != nil:
		n = append(n, "the GPUs cannot be read: "+*l.Unread)
	case l.Stale != nil:
		n = append(n, fmt.Sprintf("GPU readings are %d s old", int(*l.Stale)))
	}
	switch {
	case hint != "":
		n = append(n, hint)
	case l.Draining != nil:
		n = append(n, "nothing more starts: "+*l.Draining)
	case s.Is(schema.RunWatching):
		n = append(n, "all done; waiting for its files to change")
	}
	return n
}

// line returns the state line, after a bar if both fit in a row. Nothing of it is cut: its end
// says when all is done.
func (f Frame) line(w int) []string {
	t, text := &f.Snap.Tally, CleanText(f.Snap.Line)
	room := min(w-Width(text)-3, 30)
	if room < 8 {
		rows := Wrap(text, w, 2)
		for i := range rows {
			rows[i] = Fit(rows[i], w)
		}
		return rows
	}
	ended, failed := room*(t.Done+t.Failed+t.NotRun)/max(t.Total, 1), 0
	if t.Failed > 0 {
		failed = max(1, ended*t.Failed/(t.Done+t.Failed+t.NotRun))
		ended = max(ended, failed)
	}
	return []string{"[" + Paint(Green, strings.Repeat("#", ended-failed)) + Paint(Red, strings.Repeat("!", failed)) + strings.Repeat(".", room-ended) + "] " + text}
}
