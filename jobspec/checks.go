package jobspec

import (
	"bytes"
	"fmt"
	"reflect"
	"slices"
	"strings"

	"gopkg.in/yaml.v3"

	"gpurun/jobspec/configedit"
	"gpurun/jobspec/expand"
	"gpurun/jobspec/lint"
	"gpurun/jobspec/settings"
	"gpurun/jobspec/source"
)

// eachJob calls f for each job. Once f returns true for a job, the remaining expansions of the same
// entry in the file are skipped.
func (l *loader) eachJob(f func(j *Job) (told bool)) {
	told := map[*expand.Job]bool{}
	for i := range l.batch.Jobs {
		if j := &l.batch.Jobs[i]; !told[j.Spec.text] {
			told[j.Spec.text] = f(j)
		}
	}
}

// path returns the absolute path that t stands for in a job. It returns "" if t is nil, the path
// was reported as unusable, or it contains {uni_id}, which differs between attempts.
func (l *loader) path(j *Job, t *expand.Text) string {
	if t == nil || t.Uses(expand.VarUniID) {
		return ""
	}
	v, err := l.batch.plan(j)
	if err != nil {
		return ""
	}
	path, _ := expand.Absolute(v.WorkDir, t.Render(v))
	return path
}

// checkLogs refuses two jobs that would write to the same log.
func (l *loader) checkLogs() {
	owner := map[string]*Job{}
	var kept []func() // deferred checks of logs whose names look like those of previous logs
	l.eachJob(func(j *Job) bool {
		for n, t := range j.Spec.text.Logs() {
			path := l.path(j, t)
			if strings.HasSuffix(path, keptLog) {
				kept = append(kept, func() { l.logClash(j, t, path, owner[strings.TrimSuffix(path, keptLog)]) })
			}
			other := owner[path]
			switch {
			case path == "" || path == "/dev/null" || other == j:
				continue
			case other == nil:
				owner[path] = j
				continue
			}
			line, col := t.Line, t.Col
			if l.files[j.File].style == ofBlocks { // the config file sets the path
				line, col = j.Spec.text.Line, j.Spec.text.Col
			}
			l.files[j.File].src.Problem(line, col, "add {name} to the path", "%s: jobs %q and %q would write to the same file, %s", []string{"log", "stdout", "stderr"}[n], other.Name, j.Name, path)
			return true
		}
		return false
	})
	for _, check := range kept {
		check()
	}
}

// keptLog is the suffix of a log kept from the previous run.
const keptLog = ".1"

// logClash reports a log whose path another job would use for its previous log.
func (l *loader) logClash(j *Job, t *expand.Text, path string, other *Job) {
	if other == nil {
		return
	}
	l.batch.clashing[path] = true
	if l.opts.Lint {
		l.lints.Find(l.files[j.File].src, j.Spec.text, Problem{Lint: lint.LogClash, Line: t.Line, Col: t.Col,
			Text: fmt.Sprintf("job %q logs to %s, where job %q would keep its previous log", j.Name, path, other.Name),
			Hint: "give the logs an extension, for example {name}.log"}, false)
	}
}

// ClashingLog reports whether a path is a job's log and also where another job's previous log would
// go.
func (b *Batch) ClashingLog(path string) bool { return b.clashing[path] }

// noConfig refuses {config} in the texts of a job without a config, where it would be empty.
func (p *proto) noConfig(texts []*expand.Text) {
	for _, t := range texts {
		if t.Uses(expand.VarConfig) {
			l, c := p.src.Find(t.Line, t.Col, "{config")
			hint := "add config: {base: …}, or for literal text, write {{config}}"
			if p.style == ofBlocks {
				hint = "for literal text, write {{config}}"
			}
			p.src.Problem(l, c, hint, "{config} is used, but the job has no config")
		}
	}
}

// A configCopy is a copy of a config that a job writes to a path given in the job file.
type configCopy struct {
	job        *Job
	base       *configedit.File
	sets       []configedit.Set
	perAttempt bool
}

// differs reports whether two copies differ in content. Comparing their changes is usually enough.
func (c *configCopy) differs(o *configCopy) bool {
	if c.perAttempt || o.perAttempt {
		return true
	}
	if c.base == nil || o.base == nil || c.base == o.base && reflect.DeepEqual(c.sets, o.sets) {
		return false
	}
	a, _ := c.base.Edit(c.sets)
	b, _ := o.base.Edit(o.sets)
	return a != nil && b != nil && !bytes.Equal(a, b)
}

// checkConfigs refuses two jobs that would write different content to the same file.
func (l *loader) checkConfigs() {
	owners := map[string]*configCopy{}
	l.eachJob(func(j *Job) bool {
		c := j.Spec.text.Config
		if c == nil || c.Bad {
			return false
		}
		path := l.path(j, c.Path)
		if path == "" {
			return false
		}
		refuse := func(hint, format string, args ...any) bool {
			l.files[j.File].src.Problem(c.Path.Line, c.Path.Col, hint, format, args...)
			return true
		}
		if l.batch.bases[path] != nil {
			return refuse("choose another path for the copy", "job %q would overwrite %s, the base of a config", j.Name, path)
		}
		own := &configCopy{job: j, perAttempt: c.PerAttempt()}
		v, _ := l.batch.plan(j)
		own.base, own.sets, _ = l.batch.open(c, v, l.out.Note)
		first := owners[path]
		if first == nil {
			owners[path] = own
		} else if own.differs(first) {
			return refuse("add {name} to its path", "jobs %q and %q would write different content to %s", first.job.Name, j.Name, path)
		}
		return false
	})
}

// checkPaths reports unset variables in a job's paths, and logs that name a folder.
func (p *proto) checkPaths() {
	list := append(slices.Concat(p.Logs(), p.Outputs, p.Inputs), p.WorkDir)
	if c := p.Config; c != nil {
		list = append(list, c.Base, c.Path)
	}
	for _, t := range list {
		if t == nil {
			continue
		}
		if _, err := expand.Path(t.Raw); err != nil {
			p.src.Problem(t.Line, t.Col, "write the full path", "%q: %s", source.Clip(t.Raw), err)
		}
	}
	for _, t := range p.Logs() {
		if t != nil && strings.HasSuffix(t.Raw, "/") {
			p.src.Problem(t.Line, t.Col, "name a file: "+t.Raw+"{name}.log", "log %q is a folder", source.Clip(t.Raw))
		}
	}
}

// lint checks one job of the file, for all expansions at once. params holds the job's own params,
// without those from defaults.
func (p *proto) lint(params *yaml.Node) {
	if !p.file.opts.Lint {
		return
	}
	p.file.lints.Check(lint.Job{
		Job: p.Job, Source: p.src, Base: p.file.workDir, GPUs: p.mostGPUs(), First: p.nameOf(p.Matrix.Values(0, "")),
		Background: p.style == ofBlocks || p.get("leftovers") != nil,
		Unread:     p.unread || len(p.Commands) == 0, Params: params,
	})
}

// mostGPUs returns the maximum number of GPUs that any expansion can be granted; -1 if unknown.
func (p *proto) mostGPUs() int {
	most := -1
	for _, s := range p.specs {
		most = max(most, s.Request.Max)
	}
	return most
}

// lintBatch runs the checks that need the whole batch.
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
	l.lintPrune()
}

// lintConcurrent warns about max_concurrent: 0, because it means no limit.
func (l *loader) lintConcurrent(g settings.Given) {
	n, err := source.ParseCount(g.Text, 0)
	if !l.opts.Lint || g.Name == "" || err != nil || n > 0 || slices.Contains(l.batch.Settings.Allow, lint.Concurrent) {
		return
	}
	l.out.Warn(Problem{File: g.File, Line: g.Line, Col: g.Col, Lint: lint.Concurrent,
		Text: "max_concurrent: 0 sets no limit", Hint: "remove it for no limit, or set it to at least 1"})
}
