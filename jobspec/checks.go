package jobspec

import (
	"bytes"
	"fmt"
	"hash/maphash"
	"slices"
	"strconv"
	"strings"

	"gpurun/jobspec/expand"
)

// checkLogs refuses two jobs that would write to the same log.
func (l *loader) checkLogs() {
	seed := maphash.MakeSeed()
	owner := map[uint64]int32{}
	told := map[*texts]bool{}
	var aside []logRef
	var v expand.Values
	for i := range l.batch.Jobs {
		j := &l.batch.Jobs[i]
		t := j.Spec.text
		if t.log == nil && t.stdout == nil && t.stderr == nil || told[t] {
			continue
		}
		v = l.values(j, v.Params[:0])
		for n, lt := range []*expand.Text{t.log, t.stdout, t.stderr} {
			path, ok := l.logPath(j, lt, &v)
			if !ok {
				continue
			}
			if strings.HasSuffix(path, keptLog) {
				aside = append(aside, logRef{j, lt, path})
			}
			h := maphash.String(seed, path)
			other, taken := owner[h]
			if !taken {
				owner[h] = j.id32()
				continue
			}
			if other == j.id32() || told[t] {
				continue
			}
			told[t] = true
			o := &l.batch.Jobs[other]
			line, col := lt.Line, lt.Col
			if l.files[j.File].isBlocks { // the config file has it
				line, col = t.line, t.col
			}
			l.files[j.File].src.Problem(line, col, "add {name} to the path", "%s: jobs %q and %q would write to the same file, %s", []string{"log", "stdout", "stderr"}[n], o.Name, j.Name, path)
		}
	}
	for _, r := range aside {
		if other, ok := owner[maphash.String(seed, strings.TrimSuffix(r.path, keptLog))]; ok {
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
		l.files[r.job.File].lint(r.job.Spec.text, Problem{Lint: lintLogClash, Line: r.text.Line, Col: r.text.Col,
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
	list := []*expand.Text{p.log, p.stdout, p.stderr}
	for i := range p.commands {
		list = append(list, &p.commands[i])
	}
	for i := range p.args {
		list = append(list, &p.args[i].value)
	}
	for i := range p.env {
		list = append(list, &p.env[i].value)
	}
	for _, t := range list {
		if t != nil && t.Uses(expand.VarConfig) {
			l, c := p.src.Find(t.Line, t.Col, "{config")
			hint := "add config: {base: …}, or for the literal text write {{config}}"
			if p.block {
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
	dir, err := j.Spec.text.dirOf(l.batch.Files[j.File].WorkDir, v)
	if err != nil {
		return "", false
	}
	path, err := absolute(dir, t.Render(v))
	return path, err == nil && path != "/dev/null"
}

// checkConfigs refuses two jobs that would write different content to the same file.
// Contents are compared only where two jobs share a path and do not make the same
// changes to the same base.
func (l *loader) checkConfigs() {
	owners := map[string]int32{}
	told := map[*texts]bool{}
	var v expand.Values
	for i := range l.batch.Jobs {
		j := &l.batch.Jobs[i]
		t := j.Spec.text
		if t.config == nil || t.config.path == nil || t.config.bad || told[t] || t.config.path.Uses(expand.VarUniID) {
			continue
		}
		v = l.values(j, v.Params[:0])
		path, ok := l.configPlace(j, t.config.path, &v)
		if !ok {
			continue
		}
		if _, base := l.batch.bases[path]; base {
			told[t] = true
			l.files[j.File].src.Problem(t.config.path.Line, t.config.path.Col, "give the copy another path", "job %q would overwrite %s, which is the base of a config", j.Name, path)
			continue
		}
		first, taken := owners[path]
		if !taken {
			owners[path] = j.id32()
			continue
		}
		o := &l.batch.Jobs[first]
		perAttempt := t.config.perAttempt() || o.Spec.text.config.perAttempt()
		if !perAttempt && l.changes(o) == l.changes(j) {
			continue
		}
		if a, b := l.content(o), l.content(j); perAttempt || a != nil && b != nil && !bytes.Equal(a, b) {
			told[t] = true
			l.files[j.File].src.Problem(t.config.path.Line, t.config.path.Col, "add {name} to its path", "jobs %q and %q would write different content to %s", o.Name, j.Name, path)
		}
	}
}

// configPlace resolves a path given under config against the job's work dir.
func (l *loader) configPlace(j *Job, t *expand.Text, v *expand.Values) (string, bool) {
	dir, err := j.Spec.text.dirOf(l.batch.Files[j.File].WorkDir, v)
	if err != nil {
		return "", false
	}
	v.WorkDir = dir
	at := *v
	at.Runtime = &Runtime{}
	path, err := absolute(dir, t.Render(&at))
	return path, err == nil
}

// perAttempt reports whether the content differs from one attempt to the next.
func (c *configText) perAttempt() bool {
	return slices.ContainsFunc(c.sets, func(s setText) bool {
		return slices.ContainsFunc(s.value.Segs, func(g expand.Segment) bool { return g.Kind >= expand.VarUniID })
	})
}

// changes identifies the base and what a job changes in it: two jobs with equal
// changes have equal contents.
func (l *loader) changes(j *Job) string {
	v := l.values(j, nil)
	c := j.Spec.text.config
	base, ok := l.configPlace(j, &c.base, &v)
	if !ok {
		return "\x00" + j.Name
	}
	v.Runtime = &Runtime{}
	buf := appendString(nil, base)
	for i := range c.sets {
		s := &c.sets[i]
		buf = strconv.AppendBool(strconv.AppendBool(buf, s.add), s.place)
		buf = appendString(appendString(buf, strings.Join(s.path, "\x00")), s.kind(&v))
		buf = appendString(buf, s.value.Render(&v))
	}
	return string(buf)
}

// content returns what a job would write, or nil if that is not known yet.
func (l *loader) content(j *Job) []byte {
	v := l.values(j, nil)
	c := j.Spec.text.config
	if _, ok := l.configPlace(j, &c.base, &v); !ok {
		return nil
	}
	v.Runtime = &Runtime{}
	base, sets, problems := l.batch.open(c, &v)
	if len(problems) > 0 {
		return nil
	}
	content, _ := base.Edit(sets)
	return content
}
