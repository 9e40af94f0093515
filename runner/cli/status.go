package cli

import (
	"cmp"
	"fmt"
	"strings"
	"time"

	"gpurun/runner/batches"
	"gpurun/runner/terminal"
	"gpurun/state/redact"
)

type statusCmd struct {
	Path    string `arg:"" optional:"" name:"file" help:"Job file (default: the one running in this folder, or the last that ran here)."`
	File    string `placeholder:"FILE" help:"The same as the file argument."`
	Watch   bool   `short:"w" help:"Watch until the run ends, and exit with its status."`
	Verbose bool   `short:"v" help:"Also show how the GPUs of each job are connected."`
	All     bool   `short:"a" help:"List queued cluster jobs one by one, not grouped by reason."`
	JSON    bool   `name:"json" help:"Print the status as JSON."`
	runFlag `embed:""`
}

func (statusCmd) Help() string {
	return helpText("Asks the live run, if any, or else reads the ledger.",
		"gpurun status -w",
		"gpurun status --run 3",
		"gpurun status --json jobs.yaml | jq .counts.failed")
}

// A shownStatus is a status being printed.
type shownStatus struct {
	*batches.Progress
	verbose bool // also print how GPUs are connected
	all     bool // also print a row for each queued job
}

// Run prints the status of each live batch of this folder, or of the last one, once or
// continuously.
func (c *statusCmd) Run(a *app) error {
	alone := map[bool]string{true: "gpurun status --json "}[c.JSON]
	if c.Watch {
		alone = "gpurun status -w "
	}
	refs, err := a.Find(cmp.Or(c.Path, c.File), alone)
	if err != nil {
		return err
	}
	c.choose(refs)
	if c.Watch {
		if over, err := a.watch(refs[0]); err != nil || !over {
			return err
		}
	}
	var last shownStatus
	for i, ref := range refs {
		if err := ref.Read(); err != nil {
			return err
		}
		if c.JSON { // programs should not have to handle several batches, so Find returned one
			st := ref.Status()
			return writeJSON(a.out, redact.Document(st, redact.Hiding(batches.SecretsOf(ref.Batch))))
		}
		last = shownStatus{ref.Progress(), c.Verbose, c.All}
		if i > 0 {
			fmt.Fprintln(a.out)
		}
		var text strings.Builder
		last.print(&text, terminal.CurrentSize().Width, time.Now())
		if err := a.print(text.String()); err != nil {
			return err
		}
	}
	if c.Watch {
		return batches.Exit(last.Exit())
	}
	return nil
}

// A runFlag selects the run whose -p values are shown.
type runFlag struct {
	Which string `name:"run" placeholder:"N|ID" help:"Use the -p values of run N; 0 means none (default: last run)."`
}

func (f *runFlag) choose(refs []*batches.Ref) {
	for _, ref := range refs {
		ref.Which = f.Which
	}
}
