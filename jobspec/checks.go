package jobspec

import (
	"bytes"
	"fmt"
	"reflect"
	"slices"
	"strings"

	"gpurun/jobspec/configedit"
	"gpurun/jobspec/expand"
	"gpurun/jobspec/lint"
	"gpurun/jobspec/source"
	"gpurun/jobspec/written"
)

// checkLogs refuses two jobs that would write to the same log.
func (l *loader) checkLogs() {
	owner := map[string]int32{}
	told := map[*written.Job]bool{}
	var aside []logRef
	for i := range l.batch.Jobs {
		j := &l.batch.Jobs[i]
		t := j.Spec.text
		if told[t] {
			continue
		}
		v := j.values()
		for n, lt := range t.Logs() {
			path, ok := l.logPath(j, lt, v)
			if !ok {
				continue
			}
			if strings.HasSuffix(path, keptLog) {
				aside = append(aside, logRef{j, lt, path})
			}
			other, taken := owner[path]
			if !taken {
				owner[path] = j.id32()
				continue
			}
			if other == j.id32() || told[t] {
				continue
			}
			told[t] = true
			o := &l.batch.Jobs[other]
			line, col := lt.Line, lt.Col
			if l.files[j.File].style == ofBlocks { // the config file has it
				line, col = t.Line, t.Col
			}
			l.files[j.File].src.Problem(line, col, "add {name} to the path", "%s: jobs %q and %q would write to the same file, %s", []string{"log", "stdout", "stderr"}[n], o.Name, j.Name, path)
		}
	}
	for _, r := range aside {
		if other, ok := owner[strings.TrimSuffix(r.path, keptLog)]; ok {
			l.logClash(r, &l.batch.Jobs[other])
		}
	}
}

// keptLog is the suffix of a log kept from the previous run.
const keptLog = ".1"

// A logRef is a log that a job names.
type logRef struct {
	job  *Job
	text *expand.Text
	path string
}

// logClash reports a log at the path where another job's previous log would be kept.
func (l *loader) logClash(r logRef, other *Job) {
	if l.batch.clashing == nil {
		l.batch.clashing = map[string]bool{}
	}
	l.batch.clashing[r.path] = true
	if l.opts.Lint {
		l.lints.Find(l.files[r.job.File].src, r.job.Spec.text, Problem{Lint: lint.LogClash, Line: r.text.Line, Col: r.text.Col,
			Text: fmt.Sprintf("the log of job %q, %s, is also where the previous log of job %q would be kept", r.job.Name, r.path, other.Name),
			Hint: "give the logs an extension, for example {name}.log"}, false)
	}
}

// ClashingLog reports whether a path is both the log of a job of the batch and where
// another job's previous log would be kept.
func (b *Batch) ClashingLog(path string) bool { return b.clashing[path] }

// checkConfigUse refuses {config} in a job without a config: it would be replaced by
// nothing.
func (p *proto) checkConfigUse(given bool) {
	if given {
		return
	}
	for _, t := range append(p.Logs(), p.Run()...) {
		if t.Uses(expand.VarConfig) {
			l, c := p.src.Find(t.Line, t.Col, "{config")
			hint := "add config: {base: …}, or for the literal text write {{config}}"
			if p.style == ofBlocks {
				hint = "for the literal text write {{config}}"
			}
			p.src.Problem(l, c, hint, "{config} in a job without a config")
		}
	}
}

func (j *Job) id32() int32 { return int32(j.ID) }

// logPath returns where a job writes a log; false if that cannot clash.
func (l *loader) logPath(j *Job, t *expand.Text, v *expand.Values) (string, bool) {
	if t == nil || t.Uses(expand.VarUniID) {
		return "", false
	}
	dir, err := j.Spec.text.Dir(l.batch.Files[j.File].WorkDir, v)
	if err != nil {
		return "", false
	}
	path, err := expand.Absolute(dir, t.Render(v))
	return path, err == nil && path != "/dev/null"
}

// A configCopy is the copy of a config that a job writes to a path of its own choice.
type configCopy struct {
	job        *Job
	base       *configedit.File
	sets       []configedit.Set
	perAttempt bool
}

// differs reports whether two copies differ in content, which mostly the changes tell.
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
	told := map[*written.Job]bool{}
	for i := range l.batch.Jobs {
		j := &l.batch.Jobs[i]
		t := j.Spec.text
		c := t.Config
		if c == nil || c.Path == nil || c.Bad || told[t] || c.Path.Uses(expand.VarUniID) {
			continue
		}
		v := j.values()
		dir, err := t.Dir(l.batch.Files[j.File].WorkDir, v)
		if err != nil {
			continue // has been reported, as has a path with an unset variable
		}
		v.WorkDir, v.Runtime = dir, &Runtime{}
		path, err := expand.Absolute(dir, c.Path.Render(v))
		if err != nil {
			continue
		}
		refuse := func(hint, format string, args ...any) {
			told[t] = true
			l.files[j.File].src.Problem(c.Path.Line, c.Path.Col, hint, format, args...)
		}
		if l.batch.bases[path] != nil {
			refuse("give the copy another path", "job %q would overwrite %s, which is the base of a config", j.Name, path)
			continue
		}
		own := &configCopy{job: j, perAttempt: c.PerAttempt()}
		own.base, own.sets, _ = l.batch.open(c, v)
		if first := owners[path]; first == nil {
			owners[path] = own
		} else if own.differs(first) {
			refuse("add {name} to its path", "jobs %q and %q would write different content to %s", first.job.Name, j.Name, path)
		}
	}
}

// checkPaths reports unset variables in all paths of a job.
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
			p.src.Problem(t.Line, t.Col, "set it, or write the full path", "%q: %s", source.Clip(t.Raw), err)
		}
	}
}
