package cli

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"gpurun/runner/results"
	"gpurun/runner/terminal"
	"gpurun/state/disk"
	"gpurun/state/redact"
)

type resultsCmd struct {
	Files  []string `arg:"" optional:"" name:"file" help:"Job files (default: those running in this folder, or the last that ran here)."`
	File   []string `placeholder:"FILE" help:"The same as the file argument."`
	Metric []string `placeholder:"NAME" help:"Show only these metrics."`
	By     []string `placeholder:"PARAM" help:"Group rows by these parameters (default: all that vary)."`
	Over   []string `placeholder:"PARAM" help:"Average over these parameters (default: seed, random_seed, rep, repeat, trial or run)."`
	Best   string   `placeholder:"METRIC" help:"For parameters not in --by, keep the setting with the best METRIC."`
	Pivot  string   `placeholder:"PARAM" help:"Make a column for each value of this parameter."`
	Within []string `placeholder:"PARAM" help:"Mark the best row for each value of these parameters (default: the data set)."`
	Versus string   `placeholder:"PARAM=VALUE" help:"Add paired differences from this baseline."`
	Where  []string `sep:"none" placeholder:"PARAM=VALUE,…" help:"Use only jobs with this value; PARAM!=VALUE excludes them."`
	Err    string   `enum:"sd,sem,ci95" default:"sd" placeholder:"sd|sem|ci95" help:"Print the standard deviation, standard error or 95% interval after ± (default: ${default})."`
	Raw    bool     `help:"Print a row for each job instead of averages."`
	Sort   string   `placeholder:"COLUMN" help:"Sort by a metric, best first, or a parameter; --sort=-COLUMN reverses."`
	Format string   `enum:"text,csv,json,md,latex" default:"text" placeholder:"text|csv|json|md|latex" help:"Output format: ${enum}; csv and json keep full precision (default: ${default})."`
	JSON   bool     `name:"json" help:"Print JSON, like --format json."`
	Watch  bool     `short:"w" help:"Print again when something changes, until the run ends."`

	runFlag `embed:""`
}

func (resultsCmd) Help() string {
	return helpText(
		"Metrics come from $GPURUN_RESULT, or from the logs and files listed under metrics in the job file.",
		"gpurun results --metric acc --pivot algorithm --versus algorithm=fedavg",
		"gpurun results --by dataset,algorithm --best val_acc --err ci95",
		"gpurun results --where dataset=svhn,cifar10 --format latex > table.tex")
}

// Run prints the results of the files, or of each selected batch.
func (c *resultsCmd) Run(a *app) error {
	if c.JSON {
		c.Format = "json"
	}
	groups := [][]string{slices.Concat(c.File, c.Files)}
	if len(groups[0]) == 0 {
		refs, err := a.Find("", "")
		if err != nil {
			return err
		}
		groups = nil
		for _, ref := range refs {
			groups = append(groups, ref.Files())
		}
	}
	if c.Watch {
		return c.watch(a, groups)
	}
	for i, paths := range groups {
		if i > 0 {
			fmt.Fprintln(a.out)
		}
		text, err := c.table(a, paths)
		if err != nil {
			return err
		}
		if err := a.print(text); err != nil {
			return err
		}
	}
	return nil
}

// watch prints the table whenever a ledger changes, until no run is alive.
func (c *resultsCmd) watch(a *app, groups [][]string) error {
	ctx, stop := a.UntilSignal()
	defer stop()
	paths, screen := slices.Concat(groups...), a.screen()
	var last time.Time
	for {
		alive, changed := false, time.Time{}
		for _, p := range paths {
			if _, lives, _ := disk.Running(p, a.StateDir); lives {
				alive = true
			}
			if at := disk.Changed(disk.Folder(p, a.StateDir)); at.After(changed) {
				changed = at
			}
		}
		if first := last.IsZero(); first || changed.After(last) {
			last = changed
			text, err := c.tables(a, groups, alive)
			if err != nil && (first || !alive) { // otherwise, the user is probably editing a job file
				return err
			}
			if err == nil && text != "" {
				if err := screen.Draw(strings.Split(strings.TrimSuffix(text, "\n"), "\n")); err != nil {
					return nil // the reader has closed the output
				}
			}
		}
		if !alive {
			return nil
		}
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-time.After(2 * time.Second):
		}
	}
}

// tables returns the tables of several batches. While a run is alive, a table may still be empty.
func (c *resultsCmd) tables(a *app, groups [][]string, alive bool) (text string, err error) {
	for _, group := range groups {
		part, err := c.table(a, group)
		var none *results.Refusal
		switch early := alive && errors.As(err, &none) && none.Empty; {
		case early && c.Format == "text":
			part = none.Text + " yet\n"
		case err != nil && !early:
			return "", err
		}
		text += part
	}
	return text, nil
}

// table returns the results of some job files in the requested format.
func (c *resultsCmd) table(a *app, paths []string) (string, error) {
	m, err := a.Measure(paths, c.Which)
	if err != nil {
		return "", err
	}
	t, err := m.Table(results.Options{
		Metrics: c.Metric, By: c.By, Over: c.Over, Best: c.Best, Pivot: c.Pivot, Within: c.Within, Versus: c.Versus, Where: c.Where, Err: results.Err(c.Err), Sort: c.Sort, Raw: c.Raw,
	})
	if err != nil {
		return "", err
	}
	if c.Format == "csv" || c.Raw && c.Format != "json" { // these formats have no place for warnings and notes
		for _, text := range slices.Concat(t.Warnings, t.Notes) {
			a.say("note", text)
		}
	}
	var b strings.Builder
	switch c.Format {
	case "csv":
		return t.CSV(), nil
	case "md":
		return t.Markdown(), nil
	case "latex":
		return t.LaTeX(), nil
	case "json":
		err = writeJSON(&b, redact.Document(t.Document(time.Now()), redact.Hiding(m.Secrets())))
	default:
		printResults(a, &b, t)
	}
	return b.String(), err
}

// printResults writes a table for users, with the best values in bold or starred.
func printResults(a *app, b *strings.Builder, t *results.Table) {
	bold := func(s string) string { return s + "*" }
	if a.screen().Color {
		bold = func(s string) string { return terminal.Paint(terminal.Bold, s) }
	}
	if t.Headline != "" {
		b.WriteString(terminal.CleanText(t.Headline) + "\n\n")
	}
	table(b, t.Text(terminal.CleanText, bold))
	for _, line := range t.Remarks() {
		b.WriteString(terminal.CleanText(line) + "\n")
	}
}
