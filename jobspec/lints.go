package jobspec

import (
	"slices"

	"gpurun/jobspec/lint"
	"gpurun/jobspec/settings"
	"gpurun/jobspec/source"
	"gpurun/jobspec/units"

	"gopkg.in/yaml.v3"
)

// lint checks one job of the file, all expansions at once. params are its own.
func (p *proto) lint(params *yaml.Node) {
	if !p.file.opts.Lint || len(p.Matrix.Rows) == 0 {
		return
	}
	p.file.lints.Check(lint.Job{
		Job: p.Job, Source: p.src, Base: p.file.workDir, GPUs: p.mostGPUs(), First: p.nameOf(p.Matrix.Values(0, "")),
		Background: p.style == ofBlocks || p.get("leftovers") != nil,
		Own:        func(param string) bool { return source.Child(params, param) != nil },
	})
}

// mostGPUs returns the largest number of GPUs any expansion can be granted.
func (p *proto) mostGPUs() int {
	most := -1
	for _, s := range p.specs {
		most = max(most, s.Request.Max)
	}
	return most
}

// lintBatch checks what no job reveals on its own.
func (l *loader) lintBatch() {
	if !l.opts.Lint || slices.ContainsFunc(l.files, func(f *fileJobs) bool { return f.partial }) {
		return
	}
	b := lint.Batch{Len: len(l.batch.Jobs), Job: func(id int32) lint.Expansion {
		j := &l.batch.Jobs[id]
		return lint.Expansion{Job: j.Spec.text, ID: id, File: j.File, Name: j.Name, Needs: j.Needs, Queue: j.Queue, Combo: int(j.combo)}
	}}
	for _, f := range l.files {
		b.Files = append(b.Files, lint.File{Source: f.src, WorkDir: f.workDir})
	}
	l.lints.CheckBatch(b)
}

// lintConcurrent warns about max_concurrent: 0, which means no limit.
func (l *loader) lintConcurrent(g settings.Given) {
	n, err := units.ParseCount(g.Text, 0)
	if !l.opts.Lint || g.Name == "" || err != nil || n > 0 || slices.Contains(l.batch.Settings.Allow, lint.Concurrent) {
		return
	}
	l.out.Warn(Problem{File: g.File, Line: g.Line, Col: g.Col, Lint: lint.Concurrent,
		Text: "max_concurrent: 0 means no limit: as many jobs as the GPUs take", Hint: "remove it for no limit, or set at least 1"})
}
