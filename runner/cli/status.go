package cli

import (
	"cmp"
	"fmt"
	"strings"
	"time"

	"gpurun/runner/terminal"
	"gpurun/state"
	"gpurun/state/disk"
)

type statusCmd struct {
	Path    string `arg:"" optional:"" name:"file" help:"Job file of the batch. Default: the one running in this folder, or the last that ran here."`
	File    string `placeholder:"FILE" help:"The job file, as a flag."`
	Watch   bool   `short:"w" help:"Watch until it ends, and exit with its status. Ctrl-C only stops watching."`
	Verbose bool   `short:"v" help:"Also show how the GPUs of each job are connected."`
	JSON    bool   `name:"json" help:"Print the status as JSON."`
}

// Help returns the command's description and examples.
func (statusCmd) Help() string {
	return `Asks the run if there is one, else reads the ledger of the last one.

Examples:

    gpurun status
    gpurun status -w
    gpurun status --json jobs.yaml | jq .counts`
}

// A status is what is known about a batch at one moment, and what --json prints.
type status struct {
	File   string       `json:"file"`
	Alive  bool         `json:"alive"` // whether a run holds the lock
	Runner *disk.Runner `json:"runner,omitempty"`
	Mute   string       `json:"silent,omitempty"` // why that run does not answer
	Unread string       `json:"unread,omitempty"` // why this is not based on the job file
	state.Snapshot
	Held      []string  `json:"held,omitempty"`    // the snapshot's, each in a sentence
	LastRun   time.Time `json:"last_run,omitzero"` // its start
	Failures  []ended   `json:"failures"`
	Succeeded []ended   `json:"succeeded"` // including what was up to date

	lists   map[state.Phase][]string // names of the jobs, in the order of the batch
	fails   []state.FailedJob        // as displayed
	last    time.Time                // the ledger's last change
	verbose bool                     // also print how GPUs are connected
	died    bool                     // the last run did not get to its end
	kept    *kept                    // the last run's summary, unless something has happened since
}

// An ended is a job whose last attempt is over.
type ended struct {
	Job       string      `json:"job"`
	State     state.Phase `json:"state"`
	Meanwhile bool        `json:"meanwhile,omitempty"` // it ended after its run was killed; not in the ledger yet
	ExitCode  *int        `json:"exit_code,omitempty"`
	Signal    string      `json:"signal,omitempty"`
	Reason    string      `json:"reason,omitempty"`
	Line      string      `json:"line,omitempty"` // the log line that tells the cause
	Started   time.Time   `json:"started,omitzero"`
	Ended     time.Time   `json:"ended"`
	Seconds   float64     `json:"seconds,omitempty"`
	GPUs      []int       `json:"gpus,omitempty"`
	GPUCount  int         `json:"gpu_count,omitempty"`
	Log       string      `json:"log,omitempty"`
}

// Run shows the status, once or live, of each batch running in this folder, or of the one
// that ran last.
func (c *statusCmd) Run(a *app) error {
	refs, err := a.find(cmp.Or(c.Path, c.File), toShow)
	if err != nil {
		return err
	}
	if c.Watch {
		if err := onlyOne(refs, "gpurun status -w "); err != nil {
			return err
		}
		if over, err := a.watch(refs[0]); err != nil || !over {
			return err
		}
	}
	all := make([]*status, 0, len(refs))
	for i, ref := range refs {
		if err := ref.read(a); err != nil {
			return err
		}
		s := a.statusOf(ref)
		s.verbose = c.Verbose
		all = append(all, s)
		if c.JSON {
			continue
		}
		if i > 0 {
			fmt.Fprintln(a.out)
		}
		var text strings.Builder
		s.print(&text, terminal.CurrentSize().Width, time.Now())
		a.print(text.String())
	}
	switch {
	case c.JSON && len(all) == 1:
		return writeJSON(a.out, all[0])
	case c.JSON:
		return writeJSON(a.out, all)
	case c.Watch:
		return quiet(all[0].exitOf())
	}
	return nil
}
