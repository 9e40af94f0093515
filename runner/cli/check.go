package cli

import (
	"bufio"
	"errors"
	"fmt"
	"slices"
	"strings"

	"gpurun/jobspec"
)

type checkCmd struct {
	batchFlags `embed:""`
	JSON       bool `name:"json" help:"Print problems and warnings as JSON."`
}

// Help returns the command's description and examples.
func (checkCmd) Help() string {
	return `Needs no GPU and starts nothing. Exits with 0 if the files can run, else 2.

Examples:

    gpurun check jobs.yaml
    gpurun check --json jobs/*.yaml`
}

// A finding is one entry of check --json.
type finding struct {
	Severity string `json:"severity"`
	File     string `json:"file"`
	Line     int    `json:"line,omitempty"`
	Column   int    `json:"column,omitempty"`
	Text     string `json:"text"`
	Hint     string `json:"hint,omitempty"`
	Lint     string `json:"lint,omitempty"`
}

// Run reads the files and reports what is wrong with them.
func (c *checkCmd) Run(a *app) error {
	paths, err := c.paths()
	if err != nil {
		return err
	}
	a.warnOfUserConfig()
	o := a.options(&c.batchFlags)
	o.Lint = true
	batch, err := jobspec.Load(paths, o)
	var warnings []jobspec.Problem
	if batch != nil {
		warnings = batch.Warnings
	}
	if c.JSON {
		return errors.Join(writeJSON(a.out, append(findings("error", problemsIn(err)), findings("warning", warnings)...)), quiet(exitIf(err != nil)))
	}
	if err != nil {
		return problems(err)
	}
	w := bufio.NewWriter(a.out)
	defer w.Flush()
	for _, p := range warnings {
		for _, l := range problemLines(p) {
			fmt.Fprintln(w, l)
		}
	}
	for _, f := range batch.Files {
		fmt.Fprintf(w, "%s: %s, %s, ok\n", f.Path, f.Dialect, count(f.Count, "job"))
	}
	if len(warnings) > 0 {
		fmt.Fprintln(w, count(len(warnings), "warning"))
	}
	if later := judgedLater(batch); later != "" {
		fmt.Fprintln(w, later)
	}
	return nil
}

func exitIf(bad bool) int {
	if bad {
		return exitUsage
	}
	return exitDone
}

func findings(severity string, ps []jobspec.Problem) []finding {
	out := []finding{}
	for _, p := range ps {
		out = append(out, finding{severity, p.File, p.Line, p.Col, p.Text, p.Hint, p.Lint})
	}
	return out
}

// judgedLater names what check leaves out, since the jobs may run on another machine;
// "" for nothing.
func judgedLater(b *jobspec.Batch) string {
	var what []string
	if wantsGPU(b, func(int) bool { return true }) {
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
	return "not checked here, only when it runs: " + strings.Join(what, ", ")
}
