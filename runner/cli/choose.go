package cli

import (
	"errors"
	"slices"
	"strings"

	"github.com/alecthomas/kong"

	"gpurun/jobspec"
	"gpurun/runner"
)

// chooseFlags select jobs of a batch.
type chooseFlags struct {
	Only  []string  `placeholder:"GLOB" sep:"none" help:"Only these jobs (repeatable)."`
	Skip  []string  `placeholder:"GLOB" sep:"none" help:"Leave out these jobs (repeatable)."`
	Tag   []string  `placeholder:"TAG" sep:"none" help:"Only jobs with this tag (repeatable)."`
	Force forceFlag `placeholder:"[GLOB]" help:"Run jobs even if they are up to date: all, or those that match GLOB."`
}

// forceFlag is --force, --force=GLOB or --force GLOB.
type forceFlag struct{ globs []string }

// Decode takes the next argument as a glob unless it is a flag or a job file.
func (f *forceFlag) Decode(ctx *kong.DecodeContext) error {
	t := ctx.Scan.Peek()
	switch {
	case t.Type == kong.FlagValueToken:
		f.globs = append(f.globs, ctx.Scan.Pop().String())
	case t.IsEOL(), t.Type != kong.UntypedToken, !takesGlob(t.String()):
		f.globs = append(f.globs, "*")
	default:
		f.globs = append(f.globs, ctx.Scan.Pop().String())
	}
	return nil
}

// takesGlob reports whether --force takes the argument after it as its glob.
func takesGlob(next string) bool { return !strings.HasPrefix(next, "-") && !exists(next) }

// selected returns which jobs are selected; nil means all. A glob that matches no job
// is an error: it was meant to match one.
func (c *chooseFlags) selected(b *jobspec.Batch) ([]bool, error) {
	if len(c.Only)+len(c.Skip)+len(c.Tag) == 0 {
		return nil, nil
	}
	only, err := matching(b, c.Only)
	if err != nil {
		return nil, err
	}
	skip, err := matching(b, c.Skip)
	if err != nil {
		return nil, err
	}
	tagged := func(j jobspec.Job) bool {
		return len(c.Tag) == 0 || slices.ContainsFunc(j.Spec.Tags, func(t string) bool { return slices.Contains(c.Tag, t) })
	}
	if !slices.ContainsFunc(b.Jobs, tagged) {
		return nil, &failure{code: exitUsage, text: "no job is tagged " + strings.Join(c.Tag, ", ")}
	}
	in := make([]bool, len(b.Jobs))
	for id := range in {
		in[id] = tagged(b.Jobs[id]) && (len(c.Only) == 0 || only[id]) && !skip[id]
	}
	return in, nil
}

// matching marks the jobs that match names or globs.
func matching(b *jobspec.Batch, globs []string) ([]bool, error) {
	name, in := func(id int) string { return b.Jobs[id].Name }, make([]bool, len(b.Jobs))
	ids, err := runner.MatchJobs(globs, len(b.Jobs), name)
	var none runner.NoMatch
	if errors.As(err, &none) {
		files := names(len(b.Files), func(i int) string { return shown(b.Files[i].Path) })
		return nil, noSuchJob(strings.Join(files, " "), string(none), names(len(b.Jobs), name))
	}
	for _, id := range ids {
		in[id] = true
	}
	return in, nil
}

// names lists the names of n jobs.
func names(n int, name func(i int) string) []string {
	all := make([]string, n)
	for i := range all {
		all[i] = name(i)
	}
	return all
}
