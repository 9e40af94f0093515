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
	if t.workDir != nil {
		dir, err := absolute(file.WorkDir, t.workDir.Render(v))
		if err != nil {
			return b.Commands(j), nil // the attempt will report why
		}
		v.WorkDir = dir
	}
	if t.config != nil && !t.config.startsLater() {
		if c, err := b.config(t.config, v); err == nil {
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
	for i := range t.commands {
		note(&t.commands[i])
	}
	for i := range t.args {
		note(&t.args[i].value)
	}
	return t.script(v), later
}

// startsLater reports whether a config's path depends on something known only to an
// attempt. Without a path, the file is named by its content.
func (c *configText) startsLater() bool {
	texts := []*expand.Text{&c.base}
	if c.path != nil {
		texts = append(texts, c.path)
	} else {
		for i := range c.sets {
			texts = append(texts, &c.sets[i].value)
		}
	}
	v := expand.Values{Planned: true}
	return slices.ContainsFunc(texts, func(t *expand.Text) bool {
		return slices.ContainsFunc(t.Segs, func(g expand.Segment) bool { return v.IsLater(g.Kind) })
	})
}
