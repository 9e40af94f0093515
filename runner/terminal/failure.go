package terminal

import (
	"fmt"
	"strings"
	"time"

	"gpurun/state"
)

// A Failure is a job that did not succeed. It represents all that failed alike.
type Failure struct {
	Job     string
	Start   state.Fact // of its last attempt: when, and on which GPUs; zero if it never started
	End     state.Fact
	Log     string
	Tail    []string    // last lines of its log, verbatim
	Alike   state.Alike // if more than one job failed alike, else zero
	Blocked int         // jobs that did not run because of it
	Note    string      // what else to say about its end, or ""
}

// Lines returns the failure in at most width columns, except the path of its log.
func (f Failure) Lines(width int, color bool) []string {
	lines := f.head(width, color)
	if when := f.when(); when != "" {
		lines = append(lines, Wrap("    "+when, width, 4)...)
	}
	if f.Log != "" {
		lines = append(lines, "    log: "+CleanText(f.Log))
	}
	if l := f.End.Line; l != "" && f.Alike.Count <= 1 && !f.shows(l) {
		lines = append(lines, "    | "+Fit(CleanText(l), max(width-7, 20)), "    | …")
	}
	for _, t := range f.Tail {
		lines = append(lines, "    | "+paint(color, Dim, Fit(Clean(t), max(width-7, 20))))
	}
	return lines
}

// shows reports whether the log's last lines contain the one that tells why.
func (f Failure) shows(line string) bool {
	for _, t := range f.Tail {
		if strings.Contains(CleanText(t), CleanText(line)) {
			return true
		}
	}
	return false
}

// maxAlike bounds how many of the jobs that failed alike are named.
const maxAlike = 3

func (f Failure) head(width int, color bool) []string {
	if f.Alike.Count > 1 {
		return f.alike(width, color)
	}
	head := string(f.End.State) + " " + CleanText(f.Job)
	if f.Note != "" {
		head += " " + f.Note
	}
	if why := Ending(f.End); why != "" {
		head += ": " + why
	}
	if f.End.ErrorType != "" && f.End.ErrorType != state.ErrExit && f.End.ErrorType != string(f.End.State) {
		head += " (" + f.End.ErrorType + ")"
	}
	if f.End.Attempt > 1 {
		head += fmt.Sprintf(", attempt %d", f.End.Attempt)
	}
	if f.Blocked > 0 {
		head += fmt.Sprintf("; %d more did not run because of it", f.Blocked)
	}
	return painted(color, Red, string(f.End.State), head, width)
}

// alike returns the head of jobs that failed alike: their common cause, and their names.
func (f Failure) alike(width int, color bool) []string {
	count := f.Alike.Head()
	names := f.Alike.Jobs[:min(maxAlike, len(f.Alike.Jobs))]
	who := CleanText(strings.Join(names, ", "))
	if more := f.Alike.Count - len(names); more > 0 {
		who += fmt.Sprintf(" and %d more", more)
	}
	if why := Ending(state.Fact{ExitCode: f.End.ExitCode, Signal: f.End.Signal}); why != "" {
		who += " (" + why + ")"
	}
	if f.Blocked > 0 {
		who += fmt.Sprintf("; %d more did not run because of them", f.Blocked)
	}
	return append(painted(color, Red, count, count+": "+CleanText(f.Alike.Cause), width), Wrap("    "+who, width, 4)...)
}

// when returns "2026-11-21 02:11:09 to 02:14:12 (3m03s), GPU 2"; for jobs that failed
// alike, that of the first.
func (f Failure) when() string {
	s := f.span()
	if s != "" && f.Alike.Count > 1 {
		return "first: " + s
	}
	return s
}

func (f Failure) span() string {
	if f.End.Time.IsZero() {
		return ""
	}
	end := clock(f.End.Time)
	if f.Start.Time.IsZero() {
		return "at " + end
	}
	start := clock(f.Start.Time)
	if day := len("2006-01-02 "); start[:day] == end[:day] {
		end = end[day:]
	}
	s := start + " to " + end
	if d := f.End.Seconds; d > 0 {
		s += " (" + Duration(time.Duration(d*float64(time.Second))) + ")"
	}
	return s + ", " + gpuList(f.Start.GPUs)
}

// painted wraps text and colors its beginning, as far as that is on the first line.
func painted(color bool, c Color, beginning, text string, width int) []string {
	rows := Wrap(text, width, 4)
	switch {
	case strings.HasPrefix(rows[0], beginning):
		rows[0] = paint(color, c, beginning) + rows[0][len(beginning):]
	case strings.HasPrefix(beginning, rows[0]):
		rows[0] = paint(color, c, rows[0])
	}
	return rows
}
