package cli

import (
	"errors"
	"slices"
	"time"

	"github.com/alecthomas/kong"

	"gpurun/jobspec"
	"gpurun/runner/batches"
	"gpurun/state/schema"
)

// problemDocs converts problems in job files to JSON documents.
func problemDocs(list []jobspec.Problem) []schema.Problem {
	docs := make([]schema.Problem, len(list))
	for i, p := range list {
		docs[i] = schema.Problem{
			Code: p.Lint, File: schema.Known(p.File), Line: schema.Known(p.Line), Column: schema.Known(p.Col), Text: p.Text, Hint: schema.Known(p.Hint),
		}
		if p.Lint == "" {
			docs[i].Code = schema.JobFileProblem
		}
	}
	return docs
}

// problemsDoc returns why a command failed as a JSON document.
func problemsDoc(err error) schema.Problems {
	d := schema.Problems{Head: schema.At(time.Now()), Problems: problemDocs(jobspec.Problems(err)), Warnings: []schema.Problem{}, Files: []schema.File{}}
	if len(d.Problems) > 0 {
		return d
	}
	p := schema.Problem{Code: schema.FailureCode(codeOf(err)), Text: err.Error()}
	var f *batches.Failure
	if errors.As(err, &f) {
		p.Hint = schema.Known(f.Hint)
	}
	d.Problems = []schema.Problem{p}
	return d
}

// wantsJSON reports whether the command line has --json.
func wantsJSON(ctx *kong.Context) bool {
	return slices.ContainsFunc(ctx.Path, func(p *kong.Path) bool {
		return p.Flag != nil && p.Flag.Name == "json" && ctx.FlagValue(p.Flag) == true
	})
}
