package jobspec

import (
	"fmt"
	"path/filepath"
	"strings"

	"al.essio.dev/pkg/shellescape"
)

// Render replaces every variable. It fails only if a path refers to an unset $VAR, or
// if the base of a config file is unreadable or lacks a key.
func (b *Batch) Render(j *Job, rt Runtime) (Rendered, error) { return b.render(j, rt, true) }

// Paths is like Render but returns only where files are: no commands, no environment,
// and no config unless the log's name depends on it. It is for looking at thousands of
// jobs that will not run.
func (b *Batch) Paths(j *Job, rt Runtime) (Rendered, error) { return b.render(j, rt, false) }

func (b *Batch) render(j *Job, rt Runtime, whole bool) (Rendered, error) {
	t, file := j.Spec.text, &b.Files[j.File]
	if t == nil {
		return Rendered{}, fmt.Errorf("job %q does not come from a job file", j.Name)
	}
	v := j.values()
	v.workDir, v.log, v.rt = file.WorkDir, rt.Log, &rt
	r := Rendered{Shell: t.shell, WorkDir: file.WorkDir}
	var err error
	if t.workDir != nil {
		if r.WorkDir, err = absolute(file.WorkDir, t.workDir.render(v)); err != nil {
			return Rendered{}, err
		}
		v.workDir = r.WorkDir
	}
	logFirst := !t.logUses(varConfig)
	if logFirst {
		if err := t.logs(&r, v); err != nil {
			return Rendered{}, err
		}
	}
	if t.config != nil && (whole || !logFirst) {
		if r.Config, err = b.config(t.config, v); err != nil {
			return Rendered{}, err
		}
		v.config = r.Config.Path
	}
	if !logFirst {
		if err := t.logs(&r, v); err != nil {
			return Rendered{}, err
		}
	}
	if r.Outputs, err = pathList(t.outputs, v); err != nil {
		return Rendered{}, err
	}
	if r.Inputs, err = pathList(t.inputs, v); err != nil {
		return Rendered{}, err
	}
	if whole {
		r.Commands, r.Env = t.script(v), t.environ(v)
	}
	return r, nil
}

func (t *texts) logUses(k varKind) bool {
	for _, l := range []*text{t.log, t.stdout, t.stderr} {
		if l != nil && l.uses(k) {
			return true
		}
	}
	return false
}

// logs determines where output goes.
func (t *texts) logs(r *Rendered, v *values) (err error) {
	r.Stdout, r.Stderr = v.log, v.log
	place := func(t *text, at *string) {
		if t != nil && err == nil {
			*at, err = absolute(v.workDir, t.render(v))
		}
	}
	place(t.log, &r.Stdout)
	if t.log != nil {
		r.Stderr = r.Stdout
	}
	place(t.stdout, &r.Stdout)
	place(t.stderr, &r.Stderr)
	v.log = r.Stdout
	return err
}

func pathList(texts []text, v *values) ([]string, error) {
	var list []string
	for i := range texts {
		p, err := absolute(v.workDir, texts[i].render(v))
		if err != nil {
			return nil, err
		}
		list = append(list, p)
	}
	return list, nil
}

// Commands returns what a job runs, as far as that is known before it starts. What only
// an attempt knows, such as {gpu}, stays by name, as does {work_dir}.
func (b *Batch) Commands(j *Job) []string {
	if j.Spec.text == nil {
		return nil
	}
	return j.Spec.text.script(j.values())
}

// script renders the commands, with args after the last one.
func (t *texts) script(v *values) []string {
	list := make([]string, len(t.commands))
	for i := range t.commands {
		list[i] = t.commands[i].render(v)
	}
	if len(t.args) == 0 {
		return list
	}
	last := []byte(strings.TrimRight(list[len(list)-1], "\n"))
	for i := range t.args {
		last = t.args[i].append(last, v)
	}
	list[len(list)-1] = string(last)
	return list
}

// How an argument is passed: --key, not at all, or --key value.
const (
	argNone  = 'n'
	argFlag  = 'f'
	argValue = 'v'
)

// kind follows the value's YAML type; a value that is a single variable has the
// variable's type.
func (a *argText) kind(v *values) byte {
	tag := a.tag
	value := a.value.raw
	if g := a.value.sole(); g != nil {
		tag = "!!str"
		if g.kind == varParam {
			p := v.param(g)
			tag, value = p.Tag, p.Text
		}
	}
	switch tag {
	case "!!null":
		return argNone
	case "!!bool":
		if on, _ := parseBool(value); on {
			return argFlag
		}
		return argNone
	}
	return argValue
}

func (a *argText) append(buf []byte, v *values) []byte {
	kind := a.kind(v)
	if kind == argNone {
		return buf
	}
	buf = append(buf, ' ')
	if !strings.HasPrefix(a.key, "-") {
		buf = append(buf, "--"...)
	}
	buf = append(buf, a.key...)
	if kind == argFlag {
		return buf
	}
	return append(append(buf, ' '), shellescape.Quote(string(a.value.append(nil, v)))...)
}

func (t *texts) environ(v *values) []string {
	list := make([]string, 0, len(v.params)+len(t.env))
	for _, p := range v.resolved() {
		list = append(list, paramEnv(p.Name)+"="+p.Text)
	}
	for i := range t.env {
		list = append(list, t.env[i].name+"="+t.env[i].value.render(v))
	}
	return list
}

// dirOf returns a job's absolute work dir.
func (t *texts) dirOf(batch string, v *values) (string, error) {
	if t.workDir == nil {
		return batch, nil
	}
	own := *v
	own.rt, own.workDir = &Runtime{}, batch
	dir, err := absolute(batch, t.workDir.render(&own))
	return filepath.Clean(dir), err
}
