package jobspec

import (
	"slices"

	"gpurun/jobspec/expand"
)

// Planned returns a job's commands as it would run them now. What is known only to an
// attempt, such as {gpu} or {uni_id}, stays by name; later lists those names.
func (b *Batch) Planned(j *Job) (commands, later []string) {
	t, file := j.Spec.text, &b.Files[j.File]
	if t == nil {
		return nil, nil
	}
	v := &expand.Values{Params: j.Params(), Name: j.Name, WorkDir: file.WorkDir, Planned: true}
	if t.WorkDir != nil {
		dir, err := expand.Absolute(file.WorkDir, t.WorkDir.Render(v))
		if err != nil {
			return b.Commands(j), nil // the attempt will report why
		}
		v.WorkDir = dir
	}
	if t.Config != nil && !t.Config.StartsLater() {
		if c, err := b.config(t.Config, v); err == nil {
			v.Config = c.Path
		}
	}
	note := func(x *expand.Text) {
		for _, g := range x.Segs {
			if v.IsLater(g.Kind) && !slices.Contains(later, g.Lit) {
				later = append(later, g.Lit)
			}
		}
	}
	for i := range t.Commands {
		note(&t.Commands[i])
	}
	for i := range t.Args {
		note(&t.Args[i].Value)
	}
	return t.Script(v), later
}
