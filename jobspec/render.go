package jobspec

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"gopkg.in/yaml.v3"

	"gpurun/jobspec/expand"
)

// Render returns the job with every variable replaced. It fails only if the job does not come from
// a job file, a path contains an unset $VAR, or the base of its config cannot be read or changed as
// required.
func (b *Batch) Render(j *Job, rt Runtime) (Rendered, error) { return b.render(j, rt, true) }

// Paths is like Render, but returns only the paths of files: no commands, no environment, and no
// config unless the log's name depends on it. Use it to examine thousands of jobs that will not
// run.
func (b *Batch) Paths(j *Job, rt Runtime) (Rendered, error) { return b.render(j, rt, false) }

// Writes returns the paths of the files that a job declares: its outputs, and logs that its file
// names. Variables that only an attempt has are empty.
func (b *Batch) Writes(j *Job) []string {
	t := j.Spec.text
	if t == nil || !j.Spec.HasOutputs && !j.Spec.LogNamed || t.LogsUse(expand.VarConfig) {
		return nil
	}
	r, err := b.Paths(j, Runtime{UniID: j.Name})
	if err != nil {
		return nil
	}
	return slices.DeleteFunc(append(r.Outputs, r.Stdout, r.Stderr), func(path string) bool { return !IsFile(path) })
}

// IsFile reports whether a path may lead to a file, not to a device such as /dev/null.
func IsFile(path string) bool { return path != "" && !strings.HasPrefix(path, "/dev/") }

func (b *Batch) render(j *Job, rt Runtime, whole bool) (Rendered, error) {
	t, file := j.Spec.text, &b.Files[j.File]
	if t == nil {
		return Rendered{}, fmt.Errorf("job %q does not come from a job file", j.Name)
	}
	v := j.values()
	v.Log, v.Runtime = rt.Log, &rt
	var err error
	if v.WorkDir, err = t.Dir(file.WorkDir, v); err != nil {
		return Rendered{}, err
	}
	r := Rendered{Shell: t.Shell, WorkDir: v.WorkDir}
	logFirst := !t.LogsUse(expand.VarConfig)
	if logFirst {
		if r.Stdout, r.Stderr, err = t.Output(v); err != nil {
			return Rendered{}, err
		}
	}
	if t.Config != nil && (whole || !logFirst) {
		if r.Config, err = b.config(t.Config, v); err != nil {
			return Rendered{}, err
		}
		if rt.Copy != nil {
			r.Config.Path = rt.Copy(r.Config.Path)
		}
		v.Config = r.Config.Path
	}
	if !logFirst {
		if r.Stdout, r.Stderr, err = t.Output(v); err != nil {
			return Rendered{}, err
		}
	}
	if r.Outputs, err = pathList(t.Outputs, v); err != nil {
		return Rendered{}, err
	}
	if r.Inputs, err = pathList(t.Inputs, v); err != nil {
		return Rendered{}, err
	}
	if r.Metrics, err = metricsOf(t, v); err != nil {
		return Rendered{}, err
	}
	if rt.Copy != nil { // commands and environment get the path in the copy
		v.WorkDir = rt.Copy(v.WorkDir)
	}
	if whole {
		r.Commands, r.Env = t.Script(v), t.Environ(v)
	}
	return r, nil
}

func pathList(texts []*expand.Text, v *expand.Values) ([]string, error) {
	var list []string
	for _, t := range texts {
		p, err := expand.Absolute(v.WorkDir, t.Render(v))
		if err != nil {
			return nil, err
		}
		list = append(list, p)
	}
	return list, nil
}

// plan returns the variables of a job that are known before it starts, including its work dir.
func (b *Batch) plan(j *Job) (*expand.Values, error) {
	return j.text().Plan(b.Files[j.File].WorkDir, int(j.combo), j.Name)
}

// Variables returns the variables set by a job's params and env, by name. $NAME in env is expanded
// from environ.
func (b *Batch) Variables(j *Job, environ []string) map[string]string {
	v, named := j.values(), map[string]string{}
	for _, p := range j.Params() {
		named[p.Name] = p.Text
	}
	v.Runtime = &Runtime{Environ: environ}
	for _, e := range j.text().Env {
		named[e.Name] = e.Value.RenderEnv(v)
	}
	return named
}

// Commands returns a job's commands as known before it starts: {work_dir} and variables that only
// an attempt has, such as {gpu}, are not replaced.
func (b *Batch) Commands(j *Job) []string { return j.text().Script(j.values()) }

// Planned returns a job's commands as it would run them now. Variables that only an attempt has,
// such as {gpu} or {uni_id}, are not replaced; later lists them.
func (b *Batch) Planned(j *Job) (commands, later []string) {
	t := j.text()
	v, err := b.plan(j)
	if err != nil {
		return b.Commands(j), nil // the attempt will report the error
	}
	if t.Config != nil && !t.Config.StartsLater() {
		if c, err := b.config(t.Config, v); err == nil {
			v.Config = c.Path
		}
	}
	texts := slices.Clone(t.Commands)
	for _, a := range t.Args {
		texts = append(texts, a.Value)
	}
	for _, x := range texts {
		for _, name := range v.Later(x) {
			if !slices.Contains(later, name) {
				later = append(later, name)
			}
		}
	}
	return t.Script(v), later
}

// These limit what is recorded about a config when a job starts. Longer values become hashes, and a
// config with more values becomes a single hash.
const (
	maxTraits     = 200
	maxTraitValue = 60
)

// Traits returns what determines the effect of a job apart from its commands and parameters, in a
// form that can be compared between attempts. Keys such as "config model.depth" map to the value
// itself; "env NAME", "shell" and "work_dir" map to a hash, because environment values must not be
// recorded. Run-time variables are not replaced.
func (b *Batch) Traits(j *Job) map[string]string {
	t := j.text()
	traits := map[string]string{}
	v := j.values()
	for _, e := range t.Env {
		traits["env "+e.Name] = shortHash(e.Value.Render(v))
	}
	if t.Shell != nil {
		traits["shell"] = shortHash(fmt.Sprintf("%q", t.Shell))
	}
	if t.WorkDir != nil {
		traits["work_dir"] = shortHash(t.WorkDir.Render(v))
	}
	if t.Config == nil {
		return traits
	}
	v, err := b.plan(j)
	if err != nil {
		return traits
	}
	c, err := b.config(t.Config, v)
	if err != nil {
		return traits
	}
	var root any
	flat := map[string]string{}
	if yaml.Unmarshal(c.Content, &root) == nil {
		flatten(flat, "config", root)
	}
	if len(flat) == 0 || len(flat) > maxTraits {
		flat = map[string]string{"config": shortHash(string(c.Content))}
	}
	maps.Copy(traits, flat)
	return traits
}

// flatten adds every value below node to flat, under its path: "config model.depth".
func flatten(flat map[string]string, at string, node any) {
	sep := "."
	if at == "config" {
		sep = " "
	}
	switch x := node.(type) {
	case map[string]any:
		for key, value := range x {
			flatten(flat, at+sep+key, value)
		}
		return
	case []any:
		for i, value := range x {
			flatten(flat, at+sep+strconv.Itoa(i), value)
		}
		return
	}
	if text := fmt.Sprint(node); len(text) <= maxTraitValue && len(flat) <= maxTraits {
		flat[at] = text
	} else if len(flat) <= maxTraits {
		flat[at] = shortHash(text)
	}
}

func shortHash(text string) string {
	sum := sha256.Sum256([]byte(text))
	return hex.EncodeToString(sum[:4])
}
