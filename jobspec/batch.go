package jobspec

import (
	"strings"

	"github.com/hashicorp/go-multierror"

	"gpurun/jobspec/configedit"
	"gpurun/jobspec/expand"
	"gpurun/jobspec/settings"
	"gpurun/jobspec/source"
)

// A Batch is the unit of one run: the jobs of all its files, in the order given.
type Batch struct {
	Files    []File
	Jobs     []Job
	Queues   []string // "path\x00queue", for messages and identity; the same name in two files is two queues
	Settings Settings
	Warnings []Problem // nothing that keeps the batch from running

	clashing map[string]bool // log paths that are also where another job's previous log is kept

	bases map[string]*configedit.File // config files that jobs copy, as read when the keys were made
}

// QueueName returns the name of a queue as its file spells it.
func (b *Batch) QueueName(q int32) string {
	_, name, _ := strings.Cut(b.Queues[q], "\x00")
	return name
}

// A File is one job file of a batch.
type File struct {
	Path    string // as given
	Real    string // absolute, links resolved
	Dialect string // "native", "experiment list" or "block"; for display
	WorkDir string // absolute
	First   int    // ID of its first job
	Count   int    // number of jobs
	UniID   string // absolute path of logs/uni_id.json; block dialect only

	dir string // the work dir as written
}

// Options are what the command line says about reading job files.
type Options struct {
	Format     string            // "", "yaml" or "block"
	Config     string            // --config: the block dialect's settings file; "" for config.yaml beside the job file
	Flags      map[string]string // setting name with hyphens → text as typed; a bare size is MiB, a bare time seconds
	UserConfig string            // path of the user's own defaults; "" for none; may be missing
	Lint       bool              // also lint the batch, because it is going to run
}

// A Problem is an error or a warning in a job file, and Settings apply to the batch.
type (
	Problem  = source.Problem
	Settings = settings.Settings
)

// Report returns all problems as one error, a *multierror.Error; nil if there are none.
func Report(problems []Problem) error {
	var all *multierror.Error
	for _, p := range problems {
		all = multierror.Append(all, p)
	}
	return all.ErrorOrNil()
}

// A Param is one parameter of a job, and a Runtime what is known only to an attempt.
type (
	Param   = expand.Param
	Runtime = expand.Runtime
)
