package jobspec

import (
	"fmt"
	"path/filepath"
	"strings"

	"gpurun/jobspec/expand"
	"gpurun/jobspec/units"

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
	v.WorkDir, v.Log, v.Runtime = file.WorkDir, rt.Log, &rt
	r := Rendered{Shell: t.shell, WorkDir: file.WorkDir}
	var err error
	if t.workDir != nil {
		if r.WorkDir, err = absolute(file.WorkDir, t.workDir.Render(v)); err != nil {
			return Rendered{}, err
		}
		v.WorkDir = r.WorkDir
	}
	logFirst := !t.logUses(expand.VarConfig)
	if logFirst {
		if err := t.logs(&r, v); err != nil {
			return Rendered{}, err
		}
	}
	if t.config != nil && (whole || !logFirst) {
		if r.Config, err = b.config(t.config, v); err != nil {
			return Rendered{}, err
		}
		v.Config = r.Config.Path
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

func (t *texts) logUses(k expand.VarKind) bool {
	for _, l := range []*expand.Text{t.log, t.stdout, t.stderr} {
		if l != nil && l.Uses(k) {
			return true
		}
	}
	return false
}

// logs determines where output goes.
func (t *texts) logs(r *Rendered, v *expand.Values) (err error) {
	r.Stdout, r.Stderr = v.Log, v.Log
	place := func(t *expand.Text, at *string) {
		if t != nil && err == nil {
			*at, err = absolute(v.WorkDir, t.Render(v))
		}
	}
	place(t.log, &r.Stdout)
	if t.log != nil {
		r.Stderr = r.Stdout
	}
	place(t.stdout, &r.Stdout)
	place(t.stderr, &r.Stderr)
	v.Log = r.Stdout
	return err
}

func pathList(texts []expand.Text, v *expand.Values) ([]string, error) {
	var list []string
	for i := range texts {
		p, err := absolute(v.WorkDir, texts[i].Render(v))
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
func (t *texts) script(v *expand.Values) []string {
	list := make([]string, len(t.commands))
	for i := range t.commands {
		list[i] = t.commands[i].Render(v)
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
func (a *argText) kind(v *expand.Values) byte {
	tag := a.tag
	value := a.value.Raw
	if g := a.value.Sole(); g != nil {
		tag = "!!str"
		if g.Kind == expand.VarParam {
			p := v.Param(g)
			tag, value = p.Tag, p.Text
		}
	}
	switch tag {
	case "!!null":
		return argNone
	case "!!bool":
		if on, _ := units.ParseBool(value); on {
			return argFlag
		}
		return argNone
	}
	return argValue
}

func (a *argText) append(buf []byte, v *expand.Values) []byte {
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
	return append(append(buf, ' '), shellescape.Quote(string(a.value.Append(nil, v)))...)
}

func (t *texts) environ(v *expand.Values) []string {
	list := make([]string, 0, len(v.Params)+len(t.env))
	for _, p := range v.Resolved() {
		list = append(list, expand.ParamEnv(p.Name)+"="+p.Text)
	}
	for i := range t.env {
		list = append(list, t.env[i].name+"="+t.env[i].value.Render(v))
	}
	return list
}

// dirOf returns a job's absolute work dir.
func (t *texts) dirOf(batch string, v *expand.Values) (string, error) {
	if t.workDir == nil {
		return batch, nil
	}
	own := *v
	own.Runtime, own.WorkDir = &Runtime{}, batch
	dir, err := absolute(batch, t.workDir.Render(&own))
	return filepath.Clean(dir), err
}
