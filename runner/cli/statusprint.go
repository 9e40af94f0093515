package cli

import (
	"cmp"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"gpurun/gpu"
	"gpurun/runner/batches"
	"gpurun/runner/terminal"
	"gpurun/state"
)

// print writes the status as text.
func (s *shownStatus) print(w io.Writer, width int, now time.Time) {
	line := func(text string) {
		printLines(w, terminal.Wrap(terminal.CleanText(text), width, 4))
	}
	line(s.headline() + "; " + terminal.Phases(s.Counts) + terminal.ToGo(s.Snapshot))
	if s.Snapshotted != nil && s.Alive {
		line("its jobs run in a copy of the code: " + batches.Shown(*s.Snapshotted))
	}
	if s.Unread != "" {
		line(s.Unread)
	}
	if s.Mute != "" {
		line("the run does not answer: " + s.Mute + "; this is from its ledger")
	}
	for _, text := range s.Silent {
		line(text)
	}
	rows := [][]string{{"  RUNNING", "GPU", "MEMORY", "TIME", "PID", ""}}
	for _, r := range s.Running {
		if s.all || r.Phase != state.Queued {
			row := cells(r, now)
			if words := r.Close.Words(); s.verbose && words != "" {
				row[1] += " (" + words + ")"
			}
			rows = append(rows, row)
		}
	}
	if len(rows) > 1 {
		table(w, rows)
	}
	if !s.all {
		s.printQueued(w, width)
	}
	for _, r := range s.Waiting {
		line(fmt.Sprintf("  %s: attempt %d in %s", r.Job, r.Attempt, terminal.Duration(r.NextAt.Sub(now))))
	}
	if s.Head != "" {
		line(s.Head + " is waiting: " + s.HeadWhy)
	}
	if len(s.Rivals) > 0 {
		line("also waiting for GPUs: " + strings.Join(s.Rivals, ", "))
	}
	if s.Kept != "" {
		line(s.Kept)
	}
	if s.Watching {
		line("all done; waiting for its files to change (gpurun stop --drain ends it)")
	}
	if s.Draining != "" {
		line("nothing more starts: " + s.Draining)
	}
	for _, h := range s.Held {
		text := terminal.HeldLine(h)
		if s.Alive {
			text += fmt.Sprintf(" (gpurun retry %s lets them start)", h.First)
		}
		line(text)
	}
	s.printQueues(w)
	if s.Summary != nil {
		s.printLists(w, width)
		if len(s.Earlier) > 0 {
			printLines(w, terminal.Names(fmt.Sprintf("%d failed before that run", len(s.Earlier)), s.Earlier, width, linesOfNames))
		}
		fmt.Fprintf(w, "\n%s\n", s.Summary.Head)
		for line := range strings.Lines(s.Summary.Text) {
			fmt.Fprintln(w, terminal.CleanText(strings.TrimRight(line, "\n")))
		}
		return
	}
	for _, f := range s.Failures {
		printLines(w, terminal.FailureLines(f, width))
	}
	s.printLists(w, width)
	if rest := s.rest(); rest != "" {
		fmt.Fprintln(w, rest)
	}
}

// printQueued names the jobs in the queue of a cluster, by why they wait there.
func (s *shownStatus) printQueued(w io.Writer, width int) {
	var heads []string
	jobs, first := map[string][]string{}, map[string]time.Time{}
	for _, r := range s.Running {
		if r.Phase != state.Queued {
			continue
		}
		if jobs[r.Reason] == nil {
			heads = append(heads, r.Reason)
		}
		jobs[r.Reason] = append(jobs[r.Reason], terminal.Label(r))
		if at := first[r.Reason]; at.IsZero() || r.Expects.Before(at) && !r.Expects.IsZero() {
			first[r.Reason] = r.Expects
		}
	}
	for _, reason := range heads {
		head := fmt.Sprintf("  %d queued", len(jobs[reason]))
		if reason != "" {
			head += ": " + terminal.CleanText(reason)
		}
		if at := first[reason]; at.After(s.At) {
			head += "; the cluster expects it to start at " + batches.UntilTime(s.At, at)
		}
		printLines(w, terminal.Names(head, jobs[reason], width, linesOfNames))
	}
}

// headline returns "jobs.yaml: running since 14:02 (process 4711)".
func (s *shownStatus) headline() string {
	switch {
	case s.Alive && s.Runner.PID > 0:
		return fmt.Sprintf("%s: running since %s (process %d)", s.File, batches.UntilTime(s.At, s.Runner.Since), s.Runner.PID)
	case s.Alive:
		return s.File + ": running"
	case !s.LastRun.IsZero() && s.Summary == nil && s.cutOff():
		return fmt.Sprintf("%s: %s; the run of %s was cut off, last seen at %s", s.File, s.Outcome.Text, batches.UntilTime(s.At, s.LastRun), batches.UntilTime(s.At, s.Changed))
	}
	return s.File + ": " + s.Outcome.Text
}

// cutOff reports whether the last run was killed, or left jobs running. Ends that are
// not in the ledger do not tell: there may have been no room for them.
func (s *shownStatus) cutOff() bool {
	return s.Died || s.Counts[state.Running] > 0 || len(s.Running) > 0
}

// cells returns the row of a running job.
func cells(r state.View, now time.Time) []string {
	mem, pid := "", strings.TrimPrefix(fmt.Sprint(r.PID), "0")
	if len(r.GPUs) > 0 && r.Host == "" {
		mem = memoryWords(r.Memory * gpu.Bytes(len(r.GPUs)))
		if r.Used >= 0 {
			mem = memoryWords(r.Used) + " of " + mem
		}
	}
	note, _, _ := strings.Cut(r.Note, ", pid ") // the pid has its own column
	note = cmp.Or(terminal.Stopping(r), terminal.CleanText(r.Stalled), note)
	return []string{"  " + terminal.Label(r), strings.TrimPrefix(terminal.Where(r), "GPU "), mem, terminal.Age(r, now), pid, note}
}

func (s *shownStatus) printQueues(w io.Writer) {
	var rows [][]string
	for _, q := range s.Queues {
		busy := "idle"
		if q.Busy != "" {
			busy = "busy: " + terminal.CleanText(q.Busy)
		}
		rows = append(rows, []string{"  queue " + terminal.CleanText(q.Name), busy, fmt.Sprintf("%d left", q.Left)})
	}
	table(w, rows)
}

// listed are the states whose jobs are named, in linesOfNames lines each.
var listed = []state.Phase{state.Succeeded, state.UpToDate, state.Interrupted, state.Blocked, state.Pending, batches.Forgotten}

const linesOfNames = 2

// printLists names the jobs that need no further explanation.
func (s *shownStatus) printLists(w io.Writer, width int) {
	for _, phase := range listed {
		names := s.Lists[phase]
		if len(names) == 0 || s.Alive && phase == state.Pending {
			continue
		}
		printLines(w, terminal.Names(fmt.Sprintf("%d %s%s", len(names), phase, s.times(phase)), names, width, linesOfNames))
	}
}

// times returns how long the jobs that succeeded took.
func (s *shownStatus) times(phase state.Phase) string {
	took := s.Took[phase]
	if len(took) == 0 {
		return ""
	}
	least, most := terminal.Seconds(slices.Min(took)), terminal.Seconds(slices.Max(took))
	switch {
	case least != most:
		return " (" + least + " to " + most + ")"
	case len(took) == 1:
		return " (" + least + ")"
	}
	return " (" + least + " each)"
}

// rest returns what to type to continue.
func (s *shownStatus) rest() string {
	if s.Alive || s.Unread != "" {
		return ""
	}
	for phase, n := range s.Counts {
		if n > 0 && (phase.Bad() || !phase.Ended() || phase == state.Interrupted) {
			rest := "run the rest with: " + s.Command
			if len(s.Running) > 0 {
				rest = "the next run adopts the jobs that are still running\n" + rest
			}
			return rest
		}
	}
	return ""
}
