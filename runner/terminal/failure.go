package terminal

import (
	"cmp"
	"fmt"
	"strings"

	"gpurun/state"
	"gpurun/state/schema"
)

// FailureLines describes a failure in lines of at most width columns. Only the path of its log may
// be longer.
func FailureLines(f schema.FailedJob, width int) []string {
	lines, first := failureHead(f, width), ""
	if f.Alike.Count > 1 {
		lines, first = alikeHead(f, width), "first: "
	}
	if when := when(f); when != "" {
		lines = append(lines, Wrap("    "+first+when, width, 4)...)
	}
	if f.Log != "" {
		lines = append(lines, "    log: "+CleanText(f.Log))
	}
	room := max(width-7, 20)
	if l := CleanText(f.End.Line); l != "" && f.Alike.Count <= 1 && !strings.Contains(CleanText(strings.Join(f.Tail, "\n")), l) {
		lines = append(lines, "    | "+Fit(l, room), "    | …")
	}
	for _, t := range f.Tail {
		lines = append(lines, "    | "+Paint(Dim, Fit(Clean(t), room)))
	}
	return lines
}

func failureHead(f schema.FailedJob, width int) []string {
	head := strings.TrimSuffix(string(f.End.State)+" "+CleanText(f.Job)+" "+f.Note, " ")
	if why := Ending(f.End); why != "" {
		head += ": " + why
	}
	if f.End.ErrorType != "" && f.End.ErrorType != state.ErrExit && f.End.ErrorType != string(f.End.State) {
		head += " (" + f.End.ErrorType + ")"
	}
	if f.End.Attempt > 1 {
		head += fmt.Sprintf(", attempt %d", f.End.Attempt)
	}
	return painted(Red, string(f.End.State), head+effects(f, "it"), width)
}

// effects returns why jobs with retries left were not retried, and how many other jobs did not run
// because of them.
func effects(f schema.FailedJob, them string) (text string) {
	if f.End.NoRetry != "" {
		text = "; no retry: " + CleanText(f.End.NoRetry)
	}
	if f.Blocked > 0 {
		text += fmt.Sprintf("; %d more did not run because of %s", f.Blocked, them)
	}
	return text
}

// maxAlike is how many jobs of a failure group are listed by name.
const maxAlike = 3

// alikeHead returns the headline of a failure group: the common cause and the jobs' names.
func alikeHead(f schema.FailedJob, width int) []string {
	count := fmt.Sprintf("%d failed with the same error", f.Alike.Count)
	if s := f.Alike.State; s == state.Cancelled || s == state.Interrupted {
		count = fmt.Sprintf("%d %s", f.Alike.Count, s)
	}
	names := f.Alike.Jobs[:min(maxAlike, len(f.Alike.Jobs))]
	who := CleanText(strings.Join(names, ", "))
	if more := f.Alike.Count - len(names); more > 0 {
		who += fmt.Sprintf(" and %d more", more)
	}
	if why := Ending(state.Fact{ExitCode: f.End.ExitCode, Signal: f.End.Signal, Why: f.End.Why}); why != "" {
		who += " (" + why + ")"
	}
	who += effects(f, "them")
	return append(painted(Red, count, strings.TrimSuffix(count+": "+CleanText(f.Alike.Cause.Brief()), ": "), width), Wrap("    "+who, width, 4)...)
}

// when returns the time and place of an attempt, such as "2026-11-21 02:11:09 to 02:14:12 (3m03s),
// GPU 2".
func when(f schema.FailedJob) string {
	if f.End.Time.IsZero() {
		return ""
	}
	end := clock(f.End.Time)
	if f.Start.Time.IsZero() {
		return "at " + end
	}
	start := clock(cmp.Or(f.End.BeganAt(), f.Start.Time)) // before it began, it waited in a cluster's queue
	if day := len("2006-01-02 "); start[:day] == end[:day] {
		end = end[day:]
	}
	s := start + " to " + end
	if f.End.Seconds > 0 {
		s += " (" + Seconds(f.End.Seconds) + ")"
	}
	if on := ranOn(f.End, f.Start); on != "" {
		s += ", " + on
	}
	return s
}
