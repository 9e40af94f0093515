package expand

import (
	"strings"

	"al.essio.dev/pkg/shellescape"

	"gpurun/jobspec/source"
)

// Output returns the paths of stdout and stderr, and sets v.Log to the path of stdout.
func (t *Job) Output(v *Values) (stdout, stderr string, err error) {
	stdout, stderr = v.Log, v.Log
	place := func(t *Text, at *string) {
		if t != nil && err == nil {
			*at, err = Absolute(v.WorkDir, t.Render(v))
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

// Script renders the commands. It appends args to the last one, and inserts conda's hook where it is
// needed.
func (t *Job) Script(v *Values) []string {
	list := make([]string, len(t.Commands))
	for i, c := range t.Commands {
		list[i] = c.Render(v)
	}
	for i, a := range t.Args {
		last := &list[len(list)-1]
		if i == 0 {
			*last = strings.TrimRight(*last, "\n")
		}
		*last += a.spell(v)
	}
	n := t.Activation()
	setup := list[:n:n]
	for i, c := range list[n:] {
		c = strings.Join(append(setup, c), "\n")
		if t.Hooked(c) {
			c = CondaHook() + "\n" + c
		}
		list[n+i] = c
	}
	return list[n:]
}

// These are the ways to pass an argument: not at all, --key, or --key value.
const (
	argNone  = 'n'
	argFlag  = 'f'
	argValue = 'v'
)

// Kind returns the way to pass the argument, which depends on its value's YAML type.
func (a *Arg) Kind(v *Values) byte {
	switch v.TagOf(a.Value, a.Tag) {
	case "!!null":
		return argNone
	case "!!bool":
		if on, _ := source.ParseBool(a.Value.Render(v)); on {
			return argFlag
		}
		return argNone
	}
	return argValue
}

// spell returns the argument as passed to the shell, with a leading space.
func (a *Arg) spell(v *Values) string {
	key := " " + a.Key
	if !strings.HasPrefix(a.Key, "-") {
		key = " --" + a.Key
	}
	switch a.Kind(v) {
	case argNone:
		return ""
	case argFlag:
		return key
	}
	return key + " " + shellescape.Quote(a.Value.Render(v))
}

// Environ returns the job's own environment: its parameters and env.
func (t *Job) Environ(v *Values) []string {
	list := make([]string, 0, len(v.Params)+len(t.Env))
	for _, p := range v.Resolved() {
		list = append(list, ParamEnv(p.Name)+"="+p.Text)
	}
	for _, e := range t.Env {
		list = append(list, e.Name+"="+e.Value.RenderEnv(v))
	}
	return list
}

// Dir returns a job's absolute work dir, given that of its batch.
func (t *Job) Dir(batch string, v *Values) (string, error) {
	if t.WorkDir == nil {
		return batch, nil
	}
	own := *v
	own.Planned, own.WorkDir = true, batch
	return Absolute(batch, t.WorkDir.Render(&own))
}

// Plan returns the values of an expansion's variables that are known before it starts, including its
// work dir.
func (t *Job) Plan(batch string, combo int, name string) (*Values, error) {
	v := t.Matrix.Values(combo, name)
	v.Planned = true
	var err error
	v.WorkDir, err = t.Dir(batch, v)
	return v, err
}
