package cli

import (
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"gpurun/runner/batches"
	"gpurun/runner/terminal"
	"gpurun/state"
	"gpurun/state/schema"
)

func (c *statusCmd) print(w io.Writer, s *batches.Progress, width int, now time.Time) {
	line := func(text string) {
		printLines(w, terminal.Wrap(terminal.CleanText(text), width, 4))
	}
	live := schema.Value(s.Live)
	line(s.File + ": " + s.Line)
	if since := sinceText(s); since != "" {
		line(since)
	}
	if s.Run != nil && s.Run.Snapshot != nil && s.Alive {
		line("jobs run in a copy of the code: " + batches.Shown(*s.Run.Snapshot))
	}
	for _, p := range s.Warnings {
		if p.Code != string(schema.WaitBreaker) { // the held groups follow
			line(p.Text)
		}
	}
	rows := [][]string{{"  RUNNING", "GPU", "MEMORY", "TIME", "PID", ""}}
	running := s.In(state.Running)
	if c.All {
		running = s.In(state.Running, state.Queued)
	}
	slices.SortStableFunc(running, func(a, b *schema.Job) int {
		return schema.Value(a.Attempt.Started).Compare(schema.Value(b.Attempt.Started))
	})
	for _, j := range running {
		row := cells(j, now)
		if words := schema.Value(j.Attempt.Closeness).Words(); c.Verbose && words != "" {
			row[1] += " (" + words + ")"
		}
		rows = append(rows, row)
	}
	if len(rows) > 1 {
		table(w, rows)
	}
	if !c.All {
		printQueued(w, s, width)
	}
	retries := terminal.Retries(s.Status)
	for _, j := range retries[:min(len(retries), maxRetries)] {
		line("  " + terminal.Retry(j, now))
	}
	if live.Next != nil {
		line(live.Next.Job + " is waiting: " + live.Next.Text)
	}
	if len(live.Others) > 0 {
		line("also waiting for GPUs: " + strings.Join(live.Others, ", "))
	}
	if live.Kept != nil {
		line(*live.Kept)
	}
	if s.Is(schema.RunWatching) {
		line("all done; watching the job files for changes (gpurun stop --drain ends the run)")
	}
	if live.Draining != nil {
		line("no more jobs start: " + *live.Draining)
	}
	for _, h := range live.Held {
		text := terminal.HeldLine(h)
		if s.Alive {
			text += fmt.Sprintf(" (gpurun retry %s starts the held jobs)", h.First)
		}
		line(text)
	}
	printQueues(w, live.Queues)
	if s.Summary != nil {
		printLists(w, s, width)
		if len(s.Earlier) > 0 {
			printLines(w, terminal.Names(fmt.Sprintf("%d failed before the last run", len(s.Earlier)), s.Earlier, width, linesOfNames))
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
	printLists(w, s, width)
	if rest := restLine(s); rest != "" {
		fmt.Fprintln(w, rest)
	}
}

// maxRetries is how many retries are listed.
const maxRetries = 20

// printQueued lists the jobs in a cluster's queue, grouped by the reason for their wait.
func printQueued(w io.Writer, s *batches.Progress, width int) {
	var heads []string
	jobs, first := map[string][]string{}, map[string]*time.Time{}
	for _, j := range s.In(state.Queued) {
		wait := schema.Value(j.Wait)
		reason := schema.Value(wait.Reason)
		if jobs[reason] == nil {
			heads = append(heads, reason)
		}
		jobs[reason] = append(jobs[reason], j.Name)
		if at := first[reason]; wait.Expected != nil && (at == nil || wait.Expected.Before(*at)) {
			first[reason] = wait.Expected
		}
	}
	for _, reason := range heads {
		head := fmt.Sprintf("  %d queued", len(jobs[reason]))
		if reason != "" {
			head += ": " + terminal.CleanText(reason)
		}
		if at := first[reason]; at != nil {
			head += "; first expected start: " + batches.UntilTime(s.Now, *at)
		}
		printLines(w, terminal.Names(head, jobs[reason], width, linesOfNames))
	}
}

// sinceText describes when a live run started, or that the last run was killed or left jobs
// running; "" if neither applies. A run without a recorded end was not necessarily killed, because
// the disk may have been full.
func sinceText(s *batches.Progress) string {
	switch {
	case s.Alive && s.Runner.PID > 0:
		return fmt.Sprintf("running since %s (process %d)", batches.UntilTime(s.Now, s.Runner.Since), s.Runner.PID)
	case !s.Alive && !s.LastRun.IsZero() && s.Summary == nil && (s.Died || jobsRunning(s)):
		return fmt.Sprintf("the run of %s was interrupted, last seen at %s", batches.UntilTime(s.Now, s.LastRun), batches.UntilTime(s.Now, s.Changed))
	}
	return ""
}

// jobsRunning reports whether jobs of the ended run are still running or queued.
func jobsRunning(s *batches.Progress) bool { return len(s.In(state.Running, state.Queued)) > 0 }

func cells(j *schema.Job, now time.Time) []string {
	mem, a := "", j.Attempt
	if len(a.GPUs) > 0 && a.Node() == "" {
		granted, used := a.Memory()
		if mem = granted.Round(); used >= 0 {
			mem = used.Round() + " of " + mem
		}
	}
	row := terminal.Frame{Now: now}.Job(j).Cells
	note, _, _ := strings.Cut(row[terminal.ColMore], ", as process ") // the PID has its own column
	return []string{"  " + row[terminal.ColName], strings.TrimPrefix(terminal.Where(j), "GPU "), mem, row[terminal.ColEnd], strings.TrimPrefix(fmt.Sprint(schema.Value(a.PID)), "0"), note}
}

func printQueues(w io.Writer, queues []schema.Lane) {
	var rows [][]string
	for _, q := range queues {
		busy := "idle"
		if q.Busy != nil {
			busy = "busy: " + terminal.CleanText(*q.Busy)
		}
		rows = append(rows, []string{"  queue " + terminal.CleanText(q.Name), busy, fmt.Sprintf("%d left", q.Left)})
	}
	table(w, rows)
}

// listed are the phases whose jobs are listed, in at most linesOfNames lines for each phase.
var listed = []state.Phase{state.Succeeded, state.UpToDate, state.Pruned, state.Interrupted, state.Blocked, state.Pending, batches.Forgotten}

const linesOfNames = 2

// printLists lists the jobs that need no explanation.
func printLists(w io.Writer, s *batches.Progress, width int) {
	for _, phase := range listed {
		jobs := s.Lists[phase]
		if len(jobs) == 0 || s.Alive && phase == state.Pending {
			continue
		}
		printLines(w, terminal.Names(fmt.Sprintf("%d %s%s", len(jobs), phase, times(jobs)), names(len(jobs), func(i int) string { return jobs[i].Name }), width, linesOfNames))
	}
}

// times describes how long the successful jobs took.
func times(jobs []*schema.Job) string {
	var took []float64
	for _, j := range jobs {
		if a := j.Attempt; j.State.Ended() && j.Plan == nil && a != nil && a.State == state.Succeeded && schema.Value(a.Seconds) > 0 {
			took = append(took, *a.Seconds)
		}
	}
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

// restLine returns a line with the command that continues the batch.
func restLine(s *batches.Progress) string {
	if s.Alive || slices.ContainsFunc(s.Warnings, func(p schema.Problem) bool { return p.Code == schema.JobFileProblem }) {
		return ""
	}
	for phase, n := range s.Counts {
		if n > 0 && (phase.Bad() || !phase.Ended() || phase == state.Interrupted) {
			rest := "run the rest with: " + s.Command
			if jobsRunning(s) {
				rest = "the next run reattaches to running jobs\n" + rest
			}
			return rest
		}
	}
	return ""
}
