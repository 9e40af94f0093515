package terminal

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"gpurun/gpu"
	"gpurun/state"
)

// Size is a terminal's size in columns and rows.
type Size struct{ Width, Height int }

// A Frame is everything that the live view shows at one moment.
type Frame struct {
	Snap  state.Snapshot
	Now   time.Time
	Last  map[string]string // last line of each running attempt's log, by uni_id; cleaned
	ETA   time.Duration     // until the batch is done; negative if unknown
	Hint  string            // what a key press does now: "Ctrl-C again stops the running jobs"
	Color bool
}

// Rows draws the frame in at most size.Height-1 lines of at most size.Width-1 columns,
// so that no terminal wraps or scrolls: running jobs, jobs that are backing off, the bar,
// and why the head of the queue is waiting.
func (f Frame) Rows(size Size) []string {
	w, h := max(size.Width-1, 10), max(size.Height-1, 2)
	foot := f.foot(w)
	if len(foot) > h {
		foot = foot[:h]
	}
	return append(f.jobs(w, h-len(foot)), foot...)
}

// jobs returns the lines of running jobs, in at most room rows.
func (f Frame) jobs(w, room int) []string {
	shown := f.Snap.Running
	more := 0
	if len(shown) > room {
		keep := max(room-1, 0)
		more = len(shown) - keep
		shown = shown[:keep]
	}
	cols := f.columns(shown, w)
	lines := make([]string, 0, room)
	for _, v := range shown {
		lines = append(lines, f.job(v, cols))
	}
	if more > 0 && room > 0 {
		lines = append(lines, paint(f.Color, Dim, Fit(fmt.Sprintf("  +%d more running", more), w)))
	}
	return lines
}

// layout holds the columns of each part of a job's line; 0 leaves it out.
type layout struct{ name, gpus, memory, time, last int }

// columns assigns the columns: the log line shrinks first, then the memory goes, then
// names are cut.
func (f Frame) columns(shown []state.View, w int) layout {
	var l layout
	for _, v := range shown {
		l.name = max(l.name, Width(label(v)))
		l.gpus = max(l.gpus, Width(gpuList(v.GPUs)))
		l.memory = max(l.memory, Width(memory(v)))
		l.time = max(l.time, Width(f.age(v)))
	}
	fixed := func() int {
		n := 2
		for _, c := range []int{l.gpus, l.memory, l.time} {
			if c > 0 {
				n += 2 + c
			}
		}
		return n
	}
	if w < 60 || fixed()+8 > w {
		l.memory = 0
	}
	if fixed()+8 > w {
		l.gpus = 0
	}
	if fixed()+8 > w {
		l.time = 0
	}
	l.name = max(min(l.name, w-fixed(), max(w*2/5, 16)), 4)
	if rest := w - fixed() - l.name - 2; rest >= 8 {
		l.last = rest
	}
	return l
}

func (f Frame) job(v state.View, l layout) string {
	c := None
	if v.Stop != "" {
		c = Yellow
	}
	var b strings.Builder
	b.WriteString("  " + paint(f.Color, c, Pad(FitMiddle(label(v), l.name), l.name)))
	for _, c := range []struct {
		text string
		room int
	}{{gpuList(v.GPUs), l.gpus}, {memory(v), l.memory}, {f.age(v), l.time}} {
		if c.room > 0 {
			b.WriteString("  " + Pad(c.text, c.room))
		}
	}
	if l.last > 0 {
		if s := f.says(v); s != "" {
			b.WriteString("  " + paint(f.Color, Dim, Fit(s, l.last)))
		}
	}
	return strings.TrimRight(b.String(), " ")
}

// says returns the end of a job's line: why it is being stopped, else the last line of
// its log.
func (f Frame) says(v state.View) string {
	if v.Stop != "" {
		return "stopping: " + CleanText(v.Stop)
	}
	if v.Note != "" {
		return strings.TrimSuffix(CleanText(v.Note)+"; "+f.Last[v.UniID], "; ")
	}
	return f.Last[v.UniID]
}

func (f Frame) age(v state.View) string {
	if v.Started.IsZero() {
		return "starting"
	}
	return Duration(f.Now.Sub(v.Started))
}

// label returns a job's name, with its attempt unless it is the first.
func label(v state.View) string {
	if v.Attempt > 1 {
		return CleanText(v.Job) + " #" + strconv.Itoa(v.Attempt)
	}
	return CleanText(v.Job)
}

// gpuList returns "GPU 0,3", or "CPU".
func gpuList(ids []int) string {
	if len(ids) == 0 {
		return "CPU"
	}
	s := make([]string, len(ids))
	for i, id := range ids {
		s[i] = strconv.Itoa(id)
	}
	return "GPU " + strings.Join(s, ",")
}

// memory returns what a job uses of what it asked for, summed over its GPUs.
func memory(v state.View) string {
	if len(v.GPUs) == 0 {
		return ""
	}
	asked := v.Memory * gpu.Bytes(len(v.GPUs))
	if v.Used < 0 {
		return "?/" + asked.Round()
	}
	used, total := v.Used.Round(), asked.Round()
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
		lines = append(lines, paint(f.Color, Dim, Fit("  "+text, w)))
	}
	lines = append(lines, f.bar(w))
	if s.Head != "" {
		name := FitMiddle(CleanText(s.Head), max(16, w/4)) // leave room for the reason
		lines = append(lines, wrapped(name+" is waiting: "+CleanText(s.HeadWhy), w)...)
	}
	for _, n := range f.notices() {
		for _, l := range wrapped(CleanText(n), w) {
			lines = append(lines, paint(f.Color, Yellow, l))
		}
	}
	return lines
}

// maxReason bounds the rows of a reason in the live view.
const maxReason = 4

// wrapped returns s in a few rows that no terminal wraps.
func wrapped(s string, w int) []string {
	rows := Wrap(s, w, 2)
	if len(rows) > maxReason {
		rows = rows[:maxReason]
		rows[maxReason-1] += " …"
	}
	for i := range rows {
		rows[i] = Fit(rows[i], w)
	}
	return rows
}

// notices returns what the user must know about the run as a whole.
func (f Frame) notices() []string {
	s := &f.Snap
	n := slices.Clone(s.Silent)
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
	case f.Hint != "":
		n = append(n, f.Hint)
	case s.Draining != "":
		n = append(n, "nothing more starts: "+s.Draining)
	}
	return n
}

// bar returns "[#####.....] 12/24 done, 1 failed, 4 running, 7 pending, about 12m to go".
func (f Frame) bar(w int) string {
	t := Count(f.Snap)
	text := t.String()
	if f.ETA >= 0 && t.Left > 0 {
		text += ", about " + Duration(f.ETA) + " to go"
	}
	room := min(w-Width(text)-3, 30)
	if room < 8 {
		return Fit(text, w)
	}
	done := 0
	if t.Total > 0 {
		done = room * (t.Done + t.Bad) / t.Total
	}
	failed := 0
	if t.Bad > 0 {
		failed = max(1, done*t.Bad/(t.Done+t.Bad))
		done = max(done, failed)
	}
	return "[" + paint(f.Color, Green, strings.Repeat("#", done-failed)) + paint(f.Color, Red, strings.Repeat("!", failed)) +
		strings.Repeat(".", room-done) + "] " + text
}
