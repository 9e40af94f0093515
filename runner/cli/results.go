package cli

import (
	"context"
	"fmt"
	"io"
	"runtime/debug"
	"slices"
	"strings"
	"time"

	"gpurun/runner/results"
	"gpurun/runner/terminal"
	"gpurun/state/disk"
)

type resultsCmd struct {
	Files  []string `arg:"" optional:"" name:"file" help:"Job files. Default: those running in this folder, or the one that ran last here."`
	File   []string `placeholder:"FILE" help:"A job file, as a flag."`
	Metric []string `placeholder:"NAME,…" help:"Show only these metrics."`
	By     []string `placeholder:"PARAM,…" help:"Parameters that make the rows. Default: all that vary."`
	Over   []string `placeholder:"PARAM,…" help:"Average over these; the others within the first. Default: seed, random_seed, rep, repeat, trial or run."`
	Best   string   `placeholder:"METRIC" help:"Of all parameters not in --by, keep the setting with the best mean."`
	Pivot  string   `placeholder:"PARAM" help:"A column for each value of this parameter."`
	Versus string   `placeholder:"PARAM=VALUE" help:"Add the paired difference from this baseline, with its 95% interval."`
	Where  []string `sep:"none" placeholder:"PARAM=VALUE,…" help:"Only jobs with this value, or one of these; != excludes."`
	Err    string   `enum:"sd,sem,ci95" default:"sd" placeholder:"sd|sem|ci95" help:"What stands behind ±: standard deviation, its error, or the 95% interval (${default})."`
	Raw    bool     `help:"A row for each job, not averaged."`
	Sort   string   `placeholder:"COLUMN" help:"Sort by a metric, the best first, or by a parameter; --sort=-COLUMN reverses."`
	Format string   `enum:"text,csv,json,md,latex" default:"text" placeholder:"text|csv|json|md|latex" help:"Print as ${enum}; csv and json have all digits."`
	JSON   bool     `name:"json" help:"The same as --format json."`
	Watch  bool     `short:"w" help:"Print again when something changes, until the run ends."`
}

// Help returns the command's description and examples.
func (resultsCmd) Help() string {
	return `A table of what the jobs have measured, averaged over their seeds. Numbers come from the JSON that jobs write to $GPURUN_RESULT, and from their logs and files as the job file's metrics say. A value counts if it is of the last success of the job as the file has it now; what is missing is named in its cell.

Examples:

    gpurun results jobs.yaml
    gpurun results --metric acc --pivot algorithm --versus algorithm=fedavg
    gpurun results --by dataset,algorithm --best val_acc --err ci95
    gpurun results --where dataset=svhn,cifar10 --format latex > table.tex
    gpurun results --raw --format csv > results.csv`
}

// Run prints the results of the files, or of each batch that may be meant.
func (c *resultsCmd) Run(a *app) error {
	debug.SetGCPercent(400) // many small values, for a moment
	if c.JSON {
		c.Format = "json"
	}
	o, err := c.options()
	if err != nil {
		return refused(err)
	}
	groups := [][]string{slices.Concat(c.File, c.Files)}
	if len(groups[0]) == 0 {
		refs, err := a.find("", toShow)
		if err != nil {
			return err
		}
		groups = nil
		for _, ref := range refs {
			groups = append(groups, ref.files())
		}
	}
	if c.Watch {
		return c.watch(a, groups, o)
	}
	for i, paths := range groups {
		if i > 0 {
			fmt.Fprintln(a.out)
		}
		text, err := c.table(a, paths, o)
		if err != nil {
			return err
		}
		a.print(text)
	}
	return nil
}

// refused turns an option that does not fit the data into a failure.
func refused(err error) error {
	if r, ok := err.(*results.Refusal); ok {
		return &failure{code: exitUsage, text: r.Text, hint: r.Hint, err: err}
	}
	return err
}

func (c *resultsCmd) options() (results.Options, error) {
	o := results.Options{Metrics: c.Metric, By: c.By, Over: c.Over, Best: c.Best, Pivot: c.Pivot, Err: results.Err(c.Err), Sort: c.Sort}
	var err error
	if o.Where, err = results.ParseFilters(c.Where); err != nil {
		return o, err
	}
	if c.Versus != "" {
		var base []results.Filter
		if base, err = results.ParseFilters([]string{c.Versus}); err == nil && len(base) > 0 {
			o.Versus = base[0]
		}
	}
	return o, err
}

// watch prints the table again whenever a ledger has changed, until no run is alive.
func (c *resultsCmd) watch(a *app, groups [][]string, o results.Options) error {
	ctx, stop := a.untilSignal()
	defer stop()
	paths, screen := slices.Concat(groups...), a.screen()
	var last time.Time
	for {
		alive, changed := false, time.Time{}
		for _, p := range paths {
			if _, lives, _ := disk.Running(p, a.global.StateDir); lives {
				alive = true
			}
			if at := disk.Changed(disk.Folder(p, a.global.StateDir)); at.After(changed) {
				changed = at
			}
		}
		if changed.After(last) || last.IsZero() {
			last = changed
			var text string
			for _, group := range groups {
				part, err := c.table(a, group, o)
				if err != nil {
					return err
				}
				text += part
			}
			if err := screen.Draw(strings.Split(strings.TrimSuffix(text, "\n"), "\n")); err != nil {
				return nil // nobody is reading
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

// table returns the results of some job files as text in the format that was asked for.
func (c *resultsCmd) table(a *app, paths []string, o results.Options) (string, error) {
	m, err := a.measured(paths)
	if err != nil {
		return "", err
	}
	var t interface {
		CSV(io.Writer) error
		Markdown(io.Writer) error
		LaTeX(io.Writer) error
	}
	var b strings.Builder
	var raw *results.RawTable
	var built *results.Table
	if c.Raw {
		raw, err = results.Raw(m.data, o)
		t = raw
	} else {
		built, err = results.Build(m.data, o)
		t = built
	}
	if err != nil {
		return "", refused(err)
	}
	switch c.Format {
	case "csv":
		if built != nil { // the file has no place for them
			for _, text := range slices.Concat(built.Warnings, built.Notes) {
				a.say("note", text)
			}
		}
		err = t.CSV(&b)
	case "md":
		err = t.Markdown(&b)
	case "latex":
		err = t.LaTeX(&b)
	case "json":
		var doc any
		if raw != nil {
			doc = raw.Document(time.Now(), m.files())
		} else {
			doc = built.Document(time.Now(), m.files())
		}
		err = writeJSON(&b, doc)
	default:
		if raw != nil {
			table(&b, raw.Text(terminal.CleanText))
		} else {
			printResults(a, &b, built)
		}
	}
	return b.String(), err
}

// printResults writes a table for people: what is best is bold, or has a star.
func printResults(a *app, b *strings.Builder, t *results.Table) {
	bold := func(s string) string { return s + "*" }
	if a.screen().Color {
		bold = func(s string) string { return terminal.Paint(terminal.Bold, s) }
	}
	table(b, t.Text(terminal.CleanText, bold))
	for _, line := range append([]string{t.Caption}, t.Notes...) {
		b.WriteString(terminal.CleanText(line) + "\n")
	}
	for _, w := range t.Warnings {
		b.WriteString("warning: " + terminal.CleanText(w) + "\n")
	}
}
