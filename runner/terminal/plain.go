package terminal

import (
	"fmt"
	"strings"
	"time"

	"gpurun/state"
)

// clock returns the timestamp of lines outside a live view, with the date for logs read later.
func clock(t time.Time) string { return t.Local().Format("2006-01-02 15:04:05") }

// StartLine reports the start of an attempt.
func StartLine(f state.Fact) string {
	s := "start       " + name(f.Job, f.Attempt) + ", " + gpuList(f.GPUs)
	if len(f.GPUs) > 0 && f.Memory > 0 {
		s += ", " + f.Memory.Asked()
		if len(f.GPUs) > 1 {
			s += " each"
		}
	}
	return s
}

// EndLine reports how an attempt ended; start is its start, as far as known.
func EndLine(f, start state.Fact, color bool) string {
	c := Green
	if f.State != state.Succeeded {
		c = Red
	}
	s := paint(color, c, Pad(string(f.State), 12)) + name(f.Job, f.Attempt)
	var parts []string
	if why := Ending(f); why != "" {
		parts = append(parts, why)
	}
	if f.UniID != "" {
		parts = append(parts, Duration(time.Duration(f.Seconds*float64(time.Second))), gpuList(start.GPUs))
	}
	if f.PeakMemory > 0 {
		parts = append(parts, "peak "+f.PeakMemory.Round())
	}
	if f.State != state.Succeeded && start.Log != "" {
		parts = append(parts, CleanText(start.Log))
	}
	if len(parts) == 0 {
		return s
	}
	return s + ": " + strings.Join(parts, ", ")
}

// Ending describes how an attempt ended: "exit 1", "SIGKILL", "output X missing"; ""
// if the state says it all.
func Ending(f state.Fact) string {
	var parts []string
	switch {
	case f.Signal != "":
		parts = append(parts, f.Signal)
	case f.ExitCode != nil && *f.ExitCode != 0:
		parts = append(parts, fmt.Sprintf("exit %d", *f.ExitCode))
	}
	if f.Reason != "" {
		parts = append(parts, CleanText(f.Reason))
	}
	return strings.Join(parts, ", ")
}

func name(job string, attempt int) string {
	if attempt > 1 {
		return fmt.Sprintf("%s (attempt %d)", CleanText(job), attempt)
	}
	return CleanText(job)
}

// MinuteLine returns the summary line that is printed every minute without a live view.
func MinuteLine(s state.Snapshot, now time.Time, eta time.Duration) string {
	t := Count(s)
	line := "so far      " + t.String()
	if eta >= 0 && t.Left > 0 {
		line += ", about " + Duration(eta) + " to go"
	}
	if s.Head != "" {
		line += "; " + CleanText(s.Head+" is waiting: "+s.HeadWhy)
	}
	if text := retries(s, now); text != "" {
		line += "; " + text
	}
	for _, n := range (Frame{Snap: s}).notices() {
		line += "; " + CleanText(n)
	}
	return line
}

// retries reports when the next job that is backing off starts its attempt, and how
// many more are backing off; "" if none is.
func retries(s state.Snapshot, now time.Time) string {
	if len(s.Waiting) == 0 {
		return ""
	}
	v := s.Waiting[0]
	text := fmt.Sprintf("%s: attempt %d in %s", CleanText(v.Job), v.Attempt, Duration(v.NextAt.Sub(now)))
	if all := max(len(s.Waiting), s.Counts[state.Waiting]); all > 1 {
		text += fmt.Sprintf("; %d more waiting to retry", all-1)
	}
	return text
}
