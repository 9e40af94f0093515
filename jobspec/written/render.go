package written

import (
	"path/filepath"
	"strings"

	"al.essio.dev/pkg/shellescape"

	"gpurun/jobspec/expand"
	"gpurun/jobspec/units"
)

// LogUses reports whether the path of a log uses a variable.
func (t *Job) LogUses(k expand.VarKind) bool {
	for _, l := range []*expand.Text{t.Log, t.Stdout, t.Stderr} {
		if l != nil && l.Uses(k) {
			return true
		}
	}
	return false
}

// Logs returns where output goes, and makes that the value of {log}.
func (t *Job) Logs(v *expand.Values) (stdout, stderr string, err error) {
	stdout, stderr = v.Log, v.Log
	place := func(t *expand.Text, at *string) {
		if t != nil && err == nil {
			*at, err = expand.Absolute(v.WorkDir, t.Render(v))
		}
	}
	place(t.Log, &stdout)
	if t.Log != nil {
		stderr = stdout
	}
	place(t.Stdout, &stdout)
	place(t.Stderr, &stderr)
	v.Log = stdout
	return stdout, stderr, err
}

// Script renders the commands, with args after the last one.
func (t *Job) Script(v *expand.Values) []string {
	list := make([]string, len(t.Commands))
	for i := range t.Commands {
		list[i] = t.Commands[i].Render(v)
	}
	if len(t.Args) == 0 {
		return list
	}
	last := []byte(strings.TrimRight(list[len(list)-1], "\n"))
	for i := range t.Args {
		last = t.Args[i].Append(last, v)
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

// Kind follows the value's YAML type; a value that is a single variable has the
// variable's type.
func (a *Arg) Kind(v *expand.Values) byte {
	tag := a.Tag
	value := a.Value.Raw
	if g := a.Value.Sole(); g != nil {
		tag = "!!str"
		if g.Kind == expand.VarParam {
			p := v.Param(g.Param)
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

// Append appends the argument as the shell gets it.
func (a *Arg) Append(buf []byte, v *expand.Values) []byte {
	kind := a.Kind(v)
	if kind == argNone {
		return buf
	}
	buf = append(buf, ' ')
	if !strings.HasPrefix(a.Key, "-") {
		buf = append(buf, "--"...)
	}
	buf = append(buf, a.Key...)
	if kind == argFlag {
		return buf
	}
	return append(append(buf, ' '), shellescape.Quote(string(a.Value.Append(nil, v)))...)
}

// Environ returns the job's own environment: its parameters and env.
func (t *Job) Environ(v *expand.Values) []string {
	list := make([]string, 0, len(v.Params)+len(t.Env))
	for _, p := range v.Resolved() {
		list = append(list, expand.ParamEnv(p.Name)+"="+p.Text)
	}
	for i := range t.Env {
		list = append(list, t.Env[i].Name+"="+t.Env[i].Value.Render(v))
	}
	return list
}

// Dir returns a job's absolute work dir.
func (t *Job) Dir(batch string, v *expand.Values) (string, error) {
	if t.WorkDir == nil {
		return batch, nil
	}
	own := *v
	own.Runtime, own.WorkDir = &expand.Runtime{}, batch
	dir, err := expand.Absolute(batch, t.WorkDir.Render(&own))
	return filepath.Clean(dir), err
}
