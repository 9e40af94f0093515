package cli

import (
	"fmt"
	"strings"

	"gpurun/runner/batches"
	"gpurun/runner/terminal"
	"gpurun/state/redact"
	"gpurun/state/schema"
)

type whyCmd struct {
	batchFlag `embed:""`
	Jobs      []string `arg:"" name:"job" help:"Jobs or globs."`
	JSON      bool     `name:"json" help:"Print JSON."`
}

func (whyCmd) Help() string {
	return helpText("Traces the cause back through the jobs that a job needs or waits for.",
		"gpurun why sum",
		"gpurun why 'train-*' --file jobs.yaml")
}

func (c *whyCmd) Run(a *app) error {
	refs, err := a.FindJobs(c.File, c.Jobs, "")
	if err != nil {
		return err
	}
	w, file := refs[0].Explain(), c.only(refs[0])
	var jobs []*schema.Job
	for _, j := range w.Status.Jobs {
		if file == "" || j.File == file {
			jobs = append(jobs, j)
		}
	}
	ids, err := refs[0].Matching(c.Jobs, names(len(jobs), func(i int) string { return jobs[i].Name }))
	if err != nil {
		return err
	}
	if refs[0].Params() != "" {
		a.say("note", "jobs of "+refs[0].Name())
	}
	hide := redact.Hiding(w.Log.Secrets)
	doc := schema.Why{Head: w.Status.Head, Batch: redact.Document(w.Status.Batch, hide), Jobs: []schema.Because{}}
	var text strings.Builder
	for _, id := range ids {
		j := jobs[id]
		because := redact.Document(schema.Because{Job: *j, Chain: w.Chain(j)}, hide)
		doc.Jobs = append(doc.Jobs, because)
		fmt.Fprintln(&text, terminal.CleanText(batches.Place(j)))
		for _, line := range because.Chain {
			printLines(&text, terminal.Wrap("  "+terminal.CleanText(line), a.width(), 4))
		}
	}
	if c.JSON {
		return writeJSON(a.out, doc)
	}
	return a.print(text.String())
}

// width returns the line width for users.
func (a *app) width() int {
	if a.OutTTY {
		return terminal.CurrentSize().Width
	}
	return wideEnough
}
