package terminal

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"gpurun/gpu"
	"gpurun/state"
)

// A Frame is everything that the live view shows at one moment.
type Frame struct {
	Snap state.Snapshot
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
	shown, more := slices.Clone(f.Snap.Running), ""
	slices.SortStableFunc(shown, func(a, b state.View) int { return cmp.Compare(rank(a), rank(b)) })
	if len(shown) > room {
		keep := max(room-1, 0)
		more = fmt.Sprintf("  +%d more running", len(shown)-keep)
		shown = shown[:keep]
	}
	rows := make([][]string, len(shown))
	for i, v := range shown {
		rows[i] = []string{Label(v), Where(v), memory(v), Age(v, f.Now)}
	}
	cols, last := columnsOf(rows, w)
	lines := make([]string, 0, room)
	for i, v := range shown {
		lines = append(lines, f.job(v, rows[i], cols, last))
	}
	if more != "" && room > 0 {
		lines = append(lines, Paint(Dim, Fit(more, w)))
	}
	return lines
}

// rank puts what runs before what is queued.
func rank(v state.View) int {
	if v.Phase == state.Queued {
		return 1
	}
	return 0
}

// Where says where a job runs, if it does.
func Where(v state.View) string {
	if v.Phase == state.Queued {
		return "queued"
	}
	return place(v.Host, v.GPUs)
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

func (f Frame) job(v state.View, cells []string, cols [4]int, last int) string {
	c := None
	if v.Stop != "" {
		c = Yellow
	}
	line := "  " + Paint(c, Pad(FitMiddle(cells[0], cols[0]), cols[0]))
	for i := 1; i < len(cells); i++ {
		if cols[i] > 0 {
			line += "  " + Pad(cells[i], cols[i])
		}
	}
	if last > 0 {
		line += "  " + Paint(Dim, Fit(f.says(v), last))
	}
	return strings.TrimRight(line, " ")
}

// says returns the end of a job's line: why it is being stopped, or that it does nothing, else
// the last line of its log.
func (f Frame) says(v state.View) string {
	text := Stopping(v)
	switch {
	case text != "":
		return text
	case v.Stalled != "":
		return CleanText(v.Stalled)
	case f.Last != nil:
		text = f.Last(v.Log)
	}
	if v.Note != "" {
		return strings.TrimSuffix(CleanText(v.Note)+"; "+text, "; ")
	}
	return text
}

// Stopping returns why a job is being stopped, "" if it is not.
func Stopping(v state.View) string {
	switch v.Stop {
	case "":
		return ""
	case state.WhyResize:
		return "saving its work, for a resize"
	case state.WhyPreempted:
		return "saving its work; it runs again later"
	}
	return "stopping: " + CleanText(v.Stop)
}

// Age returns how long a job has been running, and what jobs like it take; nothing in a queue.
func Age(v state.View, now time.Time) string {
	switch {
	case v.Phase == state.Queued:
		return ""
	case v.Started.IsZero():
		return "starting"
	}
	age := Duration(now.Sub(v.Started))
	if v.Takes > 0 {
		return age + " of ~" + Duration(v.Takes)
	}
	return age
}

// Label returns a job's name, with its attempt unless it is the first.
func Label(v state.View) string {
	if v.Attempt > 1 {
		return CleanText(v.Job) + " #" + strconv.Itoa(v.Attempt)
	}
	return CleanText(v.Job)
}

// memory returns what a job uses of what it asked for, summed over its GPUs.
func memory(v state.View) string {
	if len(v.GPUs) == 0 || v.Host != "" {
		return ""
	}
	total := (v.Memory * gpu.Bytes(len(v.GPUs))).Round()
	if v.Used < 0 {
		return "?/" + total
	}
	used := v.Used.Round()
	if n, unit, ok := strings.Cut(used, " "); ok && (v.Used == 0 || strings.HasSuffix(total, " "+unit)) {
		used = n
	}
	return used + "/" + total
}

// foot returns everything below the running jobs.
func (f Frame) foot(w int) []string {
	var lines []string
	s := &f.Snap
	if text := retries(*s, f.Now); text != "" {
		lines = append(lines, Paint(Dim, Fit("  "+text, w)))
	}
	lines = append(lines, f.bar(w))
	if s.Head != "" {
		name := FitMiddle(CleanText(s.Head), max(16, w/4)) // leave room for the reason
		lines = append(lines, wrapped(None, name+" is waiting: "+CleanText(s.HeadWhy), w)...)
	}
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
func notices(s *state.Snapshot, hint string) []string {
	n := slices.Clone(s.Silent)
	if len(s.Rivals) > 0 {
		n = append(n, "also waiting for GPUs: "+strings.Join(s.Rivals, ", "))
	}
	if s.Kept != "" {
		n = append(n, s.Kept)
	}
	n = append(n, alikeRows(s)...)
	switch {
	case s.GPUErr != "":
		n = append(n, "the GPUs cannot be read: "+s.GPUErr)
	case s.GPUStale > 0:
		n = append(n, fmt.Sprintf("GPU readings are %d s old", int(s.GPUStale.Seconds())))
	}
	switch {
	case hint != "":
		n = append(n, hint)
	case s.Draining != "":
		n = append(n, "nothing more starts: "+s.Draining)
	case s.Watching:
		n = append(n, "all done; waiting for its files to change")
	}
	return n
}

// bar returns "[#####.....] 12/24 done, 1 failed, 4 running, 7 pending, about 12m to go".
func (f Frame) bar(w int) string {
	t := Count(f.Snap)
	text := t.String() + ToGo(f.Snap)
	room := min(w-Width(text)-3, 30)
	if room < 8 {
		return Fit(text, w)
	}
	done, failed := room*(t.Done+t.Bad)/max(t.Total, 1), 0
	if t.Bad > 0 {
		failed = max(1, done*t.Bad/(t.Done+t.Bad))
		done = max(done, failed)
	}
	return "[" + Paint(Green, strings.Repeat("#", done-failed)) + Paint(Red, strings.Repeat("!", failed)) +
		strings.Repeat(".", room-done) + "] " + text
}

// ToGo returns ", about 12m00s to go", or "" if that is unknown.
func ToGo(s state.Snapshot) string {
	if s.ETA <= 0 || Count(s).Left == 0 {
		return ""
	}
	return ", about " + Duration(s.ETA) + " to go"
}
