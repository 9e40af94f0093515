package cli

import (
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"gpurun/gpu"
	"gpurun/runner/batches"
	"gpurun/runner/terminal"
	"gpurun/state"
	"gpurun/state/redact"
	"gpurun/state/schema"
)

type historyCmd struct {
	batchFlag `embed:""`
	Jobs      []string  `arg:"" optional:"" name:"job" help:"Show the attempts of these jobs or globs (default: a summary of each run)."`
	Since     *timeFlag `placeholder:"TIME" help:"How far back to look, e.g. 12h or 2d (default: all)."`
	JSON      bool      `name:"json" help:"Print JSON."`
}

func (historyCmd) Help() string {
	return helpText("Shows failures, retries, GPU hours, and who held the GPUs while jobs waited.",
		"gpurun history",
		"gpurun history --since 2d --file jobs.yaml",
		"gpurun history 'train-*'")
}

func (c *historyCmd) Run(a *app) error {
	var since time.Time
	if c.Since != nil {
		since = time.Now().Add(-time.Duration(*c.Since))
	}
	refs, err := a.FindJobs(c.File, c.Jobs, "--file ")
	if err != nil {
		return err
	}
	ref := refs[0]
	if len(c.Jobs) > 0 {
		return c.attempts(a, ref, since)
	}
	p := ref.RunLog()
	hide := redact.Hiding(p.Secrets)
	rows := redact.Document(p.Rows(since), hide)
	if c.JSON {
		return writeJSON(a.out, schema.History{Head: schema.At(time.Now()), Batch: redact.Document(ref.Describe(), hide), Runs: rows})
	}
	var text strings.Builder
	switch {
	case len(rows) == 0 && c.Since != nil:
		fmt.Fprintln(&text, ref.Name()+": no run was active in the last "+state.Spell(time.Duration(*c.Since)))
	case len(rows) == 0:
		fmt.Fprintln(&text, ref.Name()+": no runs yet")
	}
	for i := range rows {
		if i > 0 {
			fmt.Fprintln(&text)
		}
		printRun(&text, &rows[i], a.width())
	}
	return a.print(text.String())
}

// wideEnough is the line width of output that does not go to a terminal.
const wideEnough = 200

// printRun prints a summary of a run.
func printRun(w io.Writer, r *schema.RunRow, width int) {
	head := fmt.Sprintf("run %d, %s", r.N, localTime(r.Started))
	if r.Ended != nil {
		head += fmt.Sprintf(" to %s (%s): exit status %d, %s", batches.UntilTime(r.Started, *r.Ended), terminal.Duration(r.Ended.Sub(r.Started)), *r.Exit, r.Why)
	} else {
		head += fmt.Sprintf(", last seen at %s: %s", batches.UntilTime(r.Started, r.LastSeen), r.Why)
	}
	line := func(indent int, text string) {
		printLines(w, terminal.Wrap(strings.Repeat(" ", indent)+terminal.CleanText(text), width, indent+2))
	}
	line(0, head)
	if len(r.Params) > 0 {
		line(2, "with"+batches.ParamFlags(r.Params))
	}
	jobs := "no job ended"
	if t := schema.TallyOf(r.Counts, true); t.Total > 0 {
		jobs = strings.Replace(t.String(), fmt.Sprintf(" of %d", t.Total), "", 1) // the total is not that of the batch
	}
	line(2, fmt.Sprintf("%s; %s, %s; %s GPU hours", jobs, state.Count(r.Attempts, "attempt"), state.Count(r.Retries, "retry"), hourWords(r.GPUSeconds)))
	for _, f := range r.Alike {
		which := ""
		if f.Count > 1 {
			which = fmt.Sprintf("%d with the same error: ", f.Count)
		}
		if f.State != state.Failed {
			which += string(f.State) + ": "
		}
		line(2, fmt.Sprintf("%s%s (%s)", which, f.Cause.Text, jobWords(f.Jobs, 5, f.Count)))
	}
	for _, l := range r.Lost {
		if l.Seconds >= leastLoss {
			line(2, fmt.Sprintf("lost %s GPU hours to %s (%s)", hourWords(l.Seconds), lossWords(&l), l.Code.Words()))
		}
	}
}

// leastLoss is the smallest loss shown, in GPU seconds.
const leastLoss = 18

// lossWords describes who or what caused a loss of GPU time.
func lossWords(l *schema.Loss) string {
	switch {
	case l.User != nil:
		return *l.User
	case l.Code == gpu.Limit:
		return "limits"
	case l.Code == gpu.Quarantined || l.Code == gpu.SilentNow:
		return "faulty GPUs"
	}
	return "others"
}

// jobWords lists the first names and counts the rest. most is the maximum number of names to list,
// and all is the total number of jobs.
func jobWords(names []string, most, all int) string {
	s := strings.Join(names[:min(len(names), most)], ", ")
	if all > most {
		s += fmt.Sprintf(" and %d more", all-most)
	}
	return s
}

func localTime(t time.Time) string { return t.Local().Format(time.DateTime) }

func (c *historyCmd) attempts(a *app, ref *batches.Ref, since time.Time) error {
	p := ref.RunLog()
	known := names(len(ref.Batch.Jobs), func(id int) string { return ref.Batch.Jobs[id].Name })
	present := ref.Present()
	for _, x := range p.Attempts {
		known = append(known, x.Job)
	}
	slices.Sort(known)
	known = slices.Compact(known)
	ids, err := ref.Matching(c.Jobs, known)
	if err != nil {
		return err
	}
	meant := map[string]bool{}
	for _, id := range ids {
		meant[known[id]] = true
	}
	now, rows, endings := time.Now(), []schema.AttemptRow{}, []string{}
	for _, x := range p.Attempts {
		ours := c.only(ref) == "" || x.Ledger == 0
		if ours && (meant[x.Job] || meant[present(x.Ledger, x.Key)]) && (x.Open != nil || !x.Time.Before(since)) {
			rows = append(rows, p.Attempt(x, now))
			endings = append(endings, x.Failure().Ending())
		}
	}
	hide := redact.Hiding(p.Secrets)
	rows = redact.Document(rows, hide)
	if c.JSON {
		return writeJSON(a.out, schema.History{Head: schema.At(now), Batch: redact.Document(ref.Describe(), hide), Attempts: rows})
	}
	if len(rows) == 0 {
		fmt.Fprintln(a.out, "no attempts of "+strings.Join(c.Jobs, ", "))
		return nil
	}
	cells := [][]string{{"JOB", "ATTEMPT", "STATE", "STARTED", "ENDED", "TIME", "GPU", "CAUSE"}}
	elsewhere := slices.ContainsFunc(rows, func(r schema.AttemptRow) bool { return r.Submitted != nil })
	if elsewhere {
		cells[0] = slices.Insert(cells[0], 3, "CLUSTER JOB", "NODE", "SUBMITTED")
	}
	for i := range rows {
		row := attemptCells(&rows[i], endings[i])
		if elsewhere {
			row = slices.Insert(row, 3, queueCells(&rows[i])...)
		}
		cells = append(cells, row)
	}
	table(a.out, cells)
	return nil
}

// queueCells returns where and when an attempt was submitted, or empty cells if it ran on this
// host.
func queueCells(r *schema.AttemptRow) []string {
	if r.Submitted == nil {
		return []string{"", "", ""}
	}
	id, node := schema.Value(r.JobID), schema.Value(r.Host)
	return []string{terminal.CleanText(id), terminal.CleanText(node), localTime(*r.Submitted)}
}

func attemptCells(r *schema.AttemptRow, ending string) []string {
	started, ended, took, cause := "never", "", "", ""
	if r.Started != nil {
		started = localTime(*r.Started)
	}
	if r.Ended != nil {
		ended = localTime(*r.Ended)
	}
	if r.Seconds != nil {
		took = terminal.Seconds(*r.Seconds)
	}
	if r.Cause != nil {
		cause = terminal.CleanText(r.Cause.Words()) + ending
	}
	gpus := strings.TrimPrefix(gpu.List(r.Indices()), "GPU ")
	if r.State == state.Queued {
		gpus = "" // the cluster has not chosen them yet
	}
	return []string{terminal.CleanText(r.Job), fmt.Sprint(r.N), r.State.String(), started, ended, took, gpus, cause}
}
