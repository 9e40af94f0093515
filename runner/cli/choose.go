package cli

import (
	"os"
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
func takesGlob(next string) bool { return !strings.HasPrefix(next, "-") && !isFile(next) }

func isFile(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}

// selected returns which jobs are selected; nil means all. A glob that matches no job
// is an error: it was meant to match one.
func (c *chooseFlags) selected(b *jobspec.Batch) (func(id int) bool, error) {
	if len(c.Only)+len(c.Skip)+len(c.Tag) == 0 {
		return nil, nil
	}
	in := make([]bool, len(b.Jobs))
	only, err := matching(b, c.Only)
	if err != nil {
		return nil, err
	}
	skip, err := matching(b, c.Skip)
	if err != nil {
		return nil, err
	}
	tagged := 0
	for id := range b.Jobs {
		tag := len(c.Tag) == 0 || slices.ContainsFunc(b.Jobs[id].Spec.Tags, func(t string) bool { return slices.Contains(c.Tag, t) })
		if tag {
			tagged++
		}
		in[id] = tag && (len(c.Only) == 0 || only[id]) && !skip[id]
	}
	if tagged == 0 {
		return nil, &failure{code: exitUsage, text: "no job is tagged " + strings.Join(c.Tag, ", ")}
	}
	return func(id int) bool { return in[id] }, nil
}

// forced returns which jobs --force means; nil means none.
func (c *chooseFlags) forced(b *jobspec.Batch) (func(id int) bool, error) {
	if len(c.Force.globs) == 0 {
		return nil, nil
	}
	in, err := matching(b, c.Force.globs)
	if err != nil {
		return nil, err
	}
	return func(id int) bool { return in[id] }, nil
}

// matching marks the jobs that match names or globs.
func matching(b *jobspec.Batch, globs []string) (map[int]bool, error) {
	in := map[int]bool{}
	for _, g := range globs {
		ids, err := runner.MatchJobs([]string{g}, len(b.Jobs), func(id int) string { return b.Jobs[id].Name })
		if err != nil {
			return nil, noSuchJob(paths(b), g, func(yield func(string) bool) {
				for id := range b.Jobs {
					if !yield(b.Jobs[id].Name) {
						return
					}
				}
			})
		}
		for _, id := range ids {
			in[id] = true
		}
	}
	return in, nil
}

// paths joins the files of a batch, as displayed.
func paths(b *jobspec.Batch) string {
	names := make([]string, len(b.Files))
	for i := range b.Files {
		names[i] = shown(b.Files[i].Path)
	}
	return strings.Join(names, " ")
}
