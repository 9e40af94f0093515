package cli

import (
	"cmp"
	"fmt"
	"iter"
	"strings"
	"time"

	"gpurun/gpu"
	"gpurun/runner/batches"
	"gpurun/runner/control"
	"gpurun/runner/terminal"
	"gpurun/state"
	"gpurun/state/disk"
	"gpurun/state/redact"
	"gpurun/state/schema"
)

type lsCmd struct {
	JSON bool `name:"json" help:"Print the batches as JSON."`
}

func (lsCmd) Help() string {
	return helpText("Lists the latest first, wherever the job files are.",
		"gpurun ls",
		"gpurun ls --json | jq -r '.batches[] | select(.run.alive) | .files[0].path'")
}

func (c *lsCmd) Run(a *app) error {
	doc := schema.Batches{Head: schema.At(time.Now()), Batches: []schema.BatchRow{}}
	cells := [][]string{{"FILE", "RUN", "STATE"}}
	var unreadable []string
	for ref := range a.recentBatches() {
		row := ref.Row()
		doc.Batches = append(doc.Batches, row)
		if row.Error != nil {
			unreadable = append(unreadable, *row.Error)
		}
		line := cmp.Or(schema.Value(row.Line), "unknown")
		cells = append(cells, []string{terminal.CleanText(ref.Name()), runWords(row.Run), terminal.CleanText(line)})
	}
	switch {
	case c.JSON:
		return writeJSON(a.out, redact.Document(doc, redact.Text))
	case len(doc.Batches) == 0:
		fmt.Fprintln(a.out, "no batches on this host")
	default:
		a.printBatches(cells)
		a.Warn(unreadable...)
	}
	return nil
}

// printBatches prints the rows of ls. It wraps state lines in their own column if there is room for
// one, or else below the batch.
func (a *app) printBatches(rows [][]string) {
	file, run := 0, 0
	for _, row := range rows {
		file, run = max(file, terminal.Width(row[0])), max(run, terminal.Width(row[1]))
	}
	room, cells := a.width()-file-run-4, [][]string(nil)
	for _, row := range rows {
		if room < minStateColumns {
			fmt.Fprintln(a.out, strings.TrimSpace(row[0]+"  "+row[1]))
			for _, text := range terminal.Wrap(row[2], a.width()-4, 0) {
				fmt.Fprintln(a.out, "    "+text)
			}
			continue
		}
		for i, text := range terminal.Wrap(row[2], room, 0) {
			if i > 0 {
				row = []string{"", ""}
			}
			cells = append(cells, []string{row[0], row[1], text})
		}
	}
	table(a.out, cells)
}

// minStateColumns is the minimum width of a column of state lines.
const minStateColumns = 40

// recentBatches yields the batches that this user has run on this host, the latest first.
func (a *app) recentBatches() iter.Seq[*batches.Ref] {
	return func(yield func(*batches.Ref) bool) {
		seen := map[string]bool{}
		for _, u := range disk.Remembered() {
			if seen[u.Dir] {
				continue
			}
			ref, err := a.In(u.StateDir, nil).Open(u.File)
			if err != nil {
				continue // the batch has been removed meanwhile
			}
			for i := range ref.Files() {
				seen[ref.Folder(i)] = true
			}
			if !yield(ref) {
				return
			}
		}
	}
}

// runningJobs returns the jobs that this user's runs on this host are running.
func (a *app) runningJobs() (jobs []*schema.Job) {
	for ref := range a.recentBatches() {
		if rep, err := ref.Ask(control.Request{Op: control.OpStatus}); err == nil {
			jobs = append(jobs, rep.Status.In(state.Running)...)
		}
	}
	return jobs
}

// runWords describes when a batch's last run was.
func runWords(r *schema.Run) string {
	switch {
	case r == nil || r.Started == nil:
		return ""
	case r.Alive:
		return "since " + gpu.Clock(*r.Started, time.Now())
	case r.Ended != nil:
		return gpu.Clock(*r.Started, time.Now()) + " to " + gpu.Clock(*r.Ended, time.Now())
	}
	return "of " + gpu.Clock(*r.Started, time.Now()) + ", cut off"
}
