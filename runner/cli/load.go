package cli

import (
	"maps"
	"slices"
	"strings"

	"gpurun/jobspec"
	"gpurun/runner/batches"
	"gpurun/state"
)

// flagged returns the options for reading job files, from the command line and the user's own
// defaults. A list of commands that is not given with --lines is read with the flags of its last
// run, unless the command line overrides them.
func (a *app) flagged(b *batchFlags, paths []string) (jobspec.Options, error) {
	o := a.Options(paths)
	o.Command, o.Format, o.Config, o.Params, o.Flags = a.command, b.Format, b.Config, b.Param, a.settings
	for _, path := range paths {
		kept, ok := o.Lines[path]
		switch {
		case len(b.List.Lines) > 0 || b.Format == "lines":
			if !ok {
				kept.Names = map[string]string{}
			}
			o.Lines[path] = b.List.given(jobspec.Lines{Names: kept.Names})
		case b.Format != "":
			delete(o.Lines, path)
		case ok:
			o.Lines[path] = b.List.given(kept)
		}
	}
	if len(o.Lines) == 0 && len(a.lines) > 0 {
		flag := slices.Sorted(maps.Keys(a.lines))[0]
		key := strings.ReplaceAll(flag, "-", "_")
		return o, &batches.Failure{Code: batches.ExitUsage, Text: "--" + flag + " works only with --lines", Hint: "in a job file, write " + key + ":"}
	}
	if slices.Contains(b.List.Lines, stdin) {
		if err := a.readInput(); err != nil {
			return o, err
		}
		l := o.Lines[b.List.Name]
		l.Input = a.input
		o.Lines[b.List.Name] = l
	}
	return o, nil
}

// load reads the job files on the command line. If they have mistakes, the error lists all of them.
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
			a.Warn(state.Count(len(list)-i, "more warning") + ": gpurun check lists them all")
			return
		}
		a.Warn(p.Place() + p.Message())
		a.Hint(p.Hint)
	}
}
