package cli

import (
	"slices"
	"strings"

	"github.com/alecthomas/kong"

	"gpurun/jobspec"
	"gpurun/runner/batches"
	"gpurun/runner/sched"
	"gpurun/state/host"
)

// chooseFlags selects jobs of a batch.
type chooseFlags struct {
	Only    []string  `placeholder:"GLOB" sep:"none" help:"Run only these jobs and their needs (repeatable)."`
	Skip    []string  `placeholder:"GLOB" sep:"none" help:"Skip these jobs (repeatable)."`
	Tag     []string  `placeholder:"TAG" sep:"none" help:"Run only jobs with this tag and their needs (repeatable)."`
	Exact   bool      `help:"Do not run the needs of jobs selected by --only and --tag."`
	NoPrune bool      `help:"Turn prune off and rerun pruned jobs."`
	Force   forceFlag `placeholder:"[GLOB]" help:"Rerun up-to-date jobs: all, or jobs that match GLOB."`
}

// forceFlag is --force, --force=GLOB or --force GLOB.
type forceFlag struct{ globs []string }

// Decode takes the next argument as a glob, unless it is a flag or an existing file.
func (f *forceFlag) Decode(ctx *kong.DecodeContext) error {
	glob := "*"
	if t := ctx.Scan.Peek(); t.Type == kong.FlagValueToken || t.Type == kong.UntypedToken && takesGlob(t.String()) {
		glob = ctx.Scan.Pop().String()
	}
	f.globs = append(f.globs, glob)
	return nil
}

// takesGlob reports whether --force uses the next argument as its glob.
func takesGlob(next string) bool { return !strings.HasPrefix(next, "-") && !host.Exists(next) }

// options returns the scheduler's options from the command line.
func (c *chooseFlags) options(b *jobspec.Batch) (o sched.Options, err error) {
	o.NoPrune = c.NoPrune
	var named []bool
	if o.Selected, named, err = c.selected(b); err != nil {
		return o, err
	}
	if o.Forced, err = batches.Match(b, c.Force.globs); err != nil {
		return o, err
	}
	for id := range named {
		o.Forced[id] = o.Forced[id] && named[id]
	}
	return o, nil
}

// selected returns which jobs are selected, and which of those were named rather than added as
// needs of others. Both are nil if all jobs are selected. A glob that matches no job is an error.
func (c *chooseFlags) selected(b *jobspec.Batch) (in, named []bool, err error) {
	if len(c.Only)+len(c.Skip)+len(c.Tag) == 0 {
		return nil, nil, nil
	}
	only, err := batches.Match(b, c.Only)
	if err != nil {
		return nil, nil, err
	}
	skip, err := batches.Match(b, c.Skip)
	if err != nil {
		return nil, nil, err
	}
	tagged := func(j jobspec.Job) bool {
		return len(c.Tag) == 0 || slices.ContainsFunc(j.Spec.Tags, func(t string) bool { return slices.Contains(c.Tag, t) })
	}
	if !slices.ContainsFunc(b.Jobs, tagged) {
		return nil, nil, &batches.Failure{Code: batches.ExitUsage, Text: "no job has the tag " + strings.Join(c.Tag, ", ")}
	}
	in = make([]bool, len(b.Jobs))
	var open []int32 // jobs whose needs are to be added
	for id := range in {
		if in[id] = tagged(b.Jobs[id]) && (len(c.Only) == 0 || only[id]) && !skip[id]; in[id] && !c.Exact {
			open = append(open, int32(id))
		}
	}
	named = slices.Clone(in)
	for ; len(open) > 0; open = open[1:] {
		j := &b.Jobs[open[0]]
		if j.Spec.When == jobspec.Always || j.Spec.When == jobspec.OnFailure {
			continue // the needs of a job with when are not selected
		}
		for _, n := range j.Needs {
			if !in[n] && !skip[n] {
				in[n], open = true, append(open, n)
			}
		}
	}
	return in, named, nil
}

func names(n int, name func(i int) string) []string {
	all := make([]string, n)
	for i := range all {
		all[i] = name(i)
	}
	return all
}
