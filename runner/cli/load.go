package cli

import (
	"gpurun/jobspec"
	"gpurun/runner/batches"
	"gpurun/state"
)

// flagged returns the options for reading job files, from the command line and the machine.
func (a *app) flagged(b *batchFlags, paths []string) (o jobspec.Options, err error) {
	o = a.Options(paths)
	o.Command, o.Format, o.Config, o.Params, o.Flags = a.command, b.Format, b.Config, b.Param, a.settings
	o.Lines, err = a.lists(b, paths)
	return o, err
}

// load reads the job files on the command line. All their problems are in one failure.
func (a *app) load(b *batchFlags) (*jobspec.Batch, error) {
	paths, err := a.paths(b)
	if err != nil {
		return nil, err
	}
	if _, warning := batches.UserConfig(); warning != "" {
		a.Warn(warning)
	}
	o, err := a.flagged(b, paths)
	if err != nil {
		return nil, err
	}
	o.Lint = true
	return a.Load(paths, o)
}

// maxWarnings is how many warnings are shown, except by check, which shows all.
const maxWarnings = 5

// warnings prints a batch's first warnings, and how to see the others.
func (a *app) warnings(b *jobspec.Batch) {
	list := mergeWarnings(b.Warnings)
	for i, p := range list {
		if i == maxWarnings {
			a.Warn(state.Count(len(list)-i, "more warning") + ": gpurun check lists all")
			return
		}
		a.Warn(p.Place() + p.Message())
		a.Hint(p.Hint)
	}
}
