package terminal

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"gpurun/gpu"
	"gpurun/state"
	"gpurun/state/schema"
)

// StartLine reports that an attempt started.
func StartLine(f state.Fact) string {
	if f.Engine != "" && f.Kind == state.KindStart {
		return "submit      " + name(f.Job, f.Attempt)
	}
	s := "start       " + name(f.Job, f.Attempt) + ", " + place(f.Host, f.GPUs)
	if len(f.GPUs) > 0 && f.Memory > 0 {
		s += ", " + f.Memory.Asked()
		if len(f.GPUs) > 1 {
			s += " each"
		}
	}
	return s
}

// StalledLine reports that an attempt stalled.
func StalledLine(f state.Fact) string {
	return Paint(Yellow, Pad(string(f.Kind), 12)) + name(f.Job, f.Attempt) + ": " + CleanText(f.Reason)
}

// place returns where an attempt runs: "GPU 2", or "node1, GPU 2" in a cluster.
func place(host string, gpus []int) string {
	if host != "" {
		return CleanText(host) + ", " + gpu.List(gpus)
	}
	return gpu.List(gpus)
}

// ranOn returns where an attempt ran, given its end and its start fact. It returns "" if a cluster
// never started the attempt.
func ranOn(end, start state.Fact) string {
	switch {
	case end.Host != "":
		return place(end.Host, end.GPUs)
	case start.Engine != "" && start.Host == "":
		return ""
	}
	return place(start.Host, start.GPUs)
}

// EndLine reports how an attempt ended. start is its start fact, which may be incomplete.
func EndLine(f, start state.Fact) string {
	c, word := Green, string(f.State)
	if f.State != state.Succeeded {
		c = Red
	}
	if f.Why == state.WhyResize {
		c, word = None, "resize"
	}
	if f.Withdrawn(&start) {
		return Paint(None, Pad("withdrawn", 12)) + name(f.Job, f.Attempt)
	}
	var parts []string
	if why := Ending(f); why != "" {
		parts = append(parts, why)
	}
	switch {
	case f.From != "":
		parts = append(parts, "copied from "+CleanText(f.From))
	case f.UniID != "":
		parts = append(parts, Seconds(f.Seconds))
		if on := ranOn(f, start); on != "" {
			parts = append(parts, on)
		}
	}
	if f.PeakMemory > 0 {
		parts = append(parts, "peak "+f.PeakMemory.Round())
	}
	if f.Uncharged != "" {
		parts = append(parts, "no retry spent: "+CleanText(f.Uncharged))
	}
	if f.NoRetry != "" {
		parts = append(parts, "no retry: "+CleanText(f.NoRetry))
	}
	if f.State != state.Succeeded && f.Why != state.WhyResize && start.Log != "" {
		parts = append(parts, CleanText(start.Log))
	}
	line := Paint(c, Pad(word, 12)) + name(f.Job, f.Attempt) + ": " + strings.Join(parts, ", ")
	return strings.TrimSuffix(line, ": ")
}

// Ending describes how an attempt ended: "exit 1", "SIGKILL", "output X missing". It returns "" if
// the attempt's state says enough.
func Ending(f state.Fact) string {
	var parts []string
	switch {
	case state.StopCause(f.Why) != "" && f.Signal == "SIGTERM": // gpurun stopped it
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

// MinuteLine returns the summary line that a run prints every minute if it has no live view.
func MinuteLine(s *schema.Status, now time.Time) string {
	line := "so far      " + CleanText(s.Line)
	if text := retries(s, now); text != "" {
		line += "; " + text
	}
	for _, n := range append(failures(s, 200, 2), notices(s, "")...) {
		line += "; " + CleanText(n)
	}
	return line
}

// retries reports when the next retry starts and how many others are waiting, or returns "" if there
// is no next retry.
func retries(s *schema.Status, now time.Time) string {
	next := Retries(s)
	if len(next) == 0 {
		return ""
	}
	text := Retry(next[0], now)
	if all := max(len(next), s.Counts[state.Waiting]); all > 1 {
		text += fmt.Sprintf("; %d more waiting to retry", all-1)
	}
	return text
}

// Retries returns the jobs waiting to be retried, ordered by the time of their next attempt.
func Retries(s *schema.Status) []*schema.Job {
	jobs := slices.DeleteFunc(s.In(state.Waiting), func(j *schema.Job) bool { return j.Wait == nil || j.Wait.Until == nil })
	slices.SortStableFunc(jobs, func(a, b *schema.Job) int { return a.Wait.Until.Compare(*b.Wait.Until) })
	return jobs
}

// Retry reports when a job's next attempt starts.
func Retry(j *schema.Job, now time.Time) string {
	return fmt.Sprintf("%s: attempt %d in %s", CleanText(j.Name), j.Attempts+1, Duration(j.Wait.Until.Sub(now)))
}

// HeldLine describes jobs that are held because similar jobs failed with the same error.
func HeldLine(h schema.Held) string {
	who, on := CleanText(h.First), ""
	if h.Jobs > 1 {
		who = fmt.Sprintf("%d jobs like %s", h.Jobs, who)
	}
	if len(h.GPUs) > 0 {
		on = " on " + gpu.List(h.GPUs)
	}
	return fmt.Sprintf("holding %s: the first attempts of %d jobs failed with the same error%s: %s", who, h.Attempts, on, CleanText(h.Cause))
}
