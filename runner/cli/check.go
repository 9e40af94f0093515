package cli

import (
	"bufio"
	"fmt"
	"slices"
	"strings"
	"time"

	"gpurun/jobspec"
	"gpurun/runner/session"
	"gpurun/state"
	"gpurun/state/schema"
)

type checkCmd struct {
	batchFlags `embed:""`
	JSON       bool `name:"json" help:"Print problems and warnings as JSON."`
}

func (checkCmd) Help() string {
	return helpText("Exits 0 if the files can run, else 2; needs no GPU.",
		"gpurun check jobs.yaml",
		"gpurun check --json jobs/*.yaml")
}

func (c *checkCmd) Run(a *app) error {
	batch, err := a.load(&c.batchFlags)
	if err != nil {
		return err
	}
	if c.JSON {
		doc := schema.Problems{Head: schema.At(time.Now()), Problems: []schema.Problem{}, Warnings: problemDocs(batch.Warnings)}
		for _, f := range batch.Files {
			doc.Files = append(doc.Files, schema.File{Path: f.Real, Dialect: f.Dialect})
		}
		return writeJSON(a.out, doc)
	}
	w := bufio.NewWriter(a.out)
	defer w.Flush()
	for _, p := range mergeWarnings(batch.Warnings) {
		printLines(w, problemLines(p))
	}
	for _, f := range batch.Files {
		fmt.Fprintf(w, "%s: %s, %s, ok\n", f.Path, f.Dialect, state.Count(f.Count, "job"))
	}
	if n := len(batch.Warnings); n > 0 {
		fmt.Fprintln(w, state.Count(n, "warning"))
	}
	if later := judgedLater(batch); later != "" {
		fmt.Fprintln(w, later)
	}
	return nil
}

// judgedLater lists the resources that only a run checks, because the jobs may run on another
// machine. It returns "" if the jobs request none of them.
func judgedLater(b *jobspec.Batch) string {
	var what []string
	if session.WantsGPU(b, func(int) bool { return true }) {
		what = append(what, "GPUs")
	}
	has := func(f func(s *jobspec.Spec) bool) bool {
		return slices.ContainsFunc(b.Jobs, func(j jobspec.Job) bool { return f(j.Spec) })
	}
	if has(func(s *jobspec.Spec) bool { return s.CPUsGiven }) {
		what = append(what, "cores")
	}
	if has(func(s *jobspec.Spec) bool { return s.Memory > 0 }) {
		what = append(what, "host memory")
	}
	if what == nil {
		return ""
	}
	return "checked only during a run: " + strings.Join(what, ", ")
}
