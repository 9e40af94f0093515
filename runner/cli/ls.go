package cli

import (
	"fmt"
	"time"

	"gpurun/runner/terminal"
	"gpurun/state/disk"
	"gpurun/state/schema"
)

type lsCmd struct {
	JSON bool `name:"json" help:"Print the batches as JSON."`
}

// Help returns the command's description and examples.
func (lsCmd) Help() string {
	return `The batches that you have run on this host, wherever their job files are, last started first. They are in batches.jsonl in $XDG_STATE_HOME/gpurun (~/.local/state/gpurun); one whose state folder is gone is left out. A batch with jobs that failed has failed, however its last run ended.

Examples:

    gpurun ls
    gpurun ls --json | jq -r '.batches[] | select(.run.alive) | .files[0].path'`
}

// Run prints a line for each batch.
func (c *lsCmd) Run(a *app) error {
	doc := schema.Batches{Head: schema.At(time.Now()), Batches: []schema.BatchRow{}}
	cells := [][]string{{"FILE", "STATE", "RUN", "JOBS"}}
	var unreadable []string
	seen := map[string]bool{}
	for _, u := range disk.Remembered() {
		if seen[u.Dir] {
			continue
		}
		ref, err := a.In(u.StateDir, nil).Open(u.File)
		if err != nil {
			continue // just removed
		}
		row, counts := ref.Row()
		for i := range ref.Files() {
			seen[ref.Folder(i)] = true
		}
		doc.Batches = append(doc.Batches, row)
		how, jobs := "unknown", "unknown"
		if row.Outcome != nil {
			how, jobs = row.Outcome.Text, terminal.Phases(counts)
		}
		if row.Error != nil {
			unreadable = append(unreadable, *row.Error)
		}
		cells = append(cells, []string{terminal.CleanText(ref.Name()), how, runWords(row.Run), jobs})
	}
	switch {
	case c.JSON:
		return writeJSON(a.out, doc)
	case len(doc.Batches) == 0:
		fmt.Fprintln(a.out, "you have run no batch on this host")
	default:
		table(a.out, cells)
		a.Warn(unreadable...)
	}
	return nil
}

// runWords says when a batch's last run was.
func runWords(r *schema.Run) string {
	switch {
	case r == nil || r.Started == nil:
		return ""
	case r.Alive:
		return "since " + clock(*r.Started)
	case r.Ended != nil:
		return clock(*r.Started) + " to " + clock(*r.Ended)
	}
	return "of " + clock(*r.Started) + ", cut off"
}
