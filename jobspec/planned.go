package jobspec

import "slices"

// Planned returns a job's commands as it would run them now. What is known only to an
// attempt, such as {gpu} or {uni_id}, stays by name; later lists those names.
func (b *Batch) Planned(j *Job) (commands, later []string) {
	t, file := j.Spec.text, &b.Files[j.File]
	if t == nil {
		return nil, nil
	}
	v := &values{params: j.Params(), name: j.Name, workDir: file.WorkDir, planned: true}
	if t.workDir != nil {
		dir, err := absolute(file.WorkDir, t.workDir.render(v))
		if err != nil {
			return b.Commands(j), nil // the attempt will report why
		}
		v.workDir = dir
	}
	if t.config != nil && !t.config.startsLater() {
		if c, err := b.config(t.config, v); err == nil {
			v.config = c.Path
		}
	}
	note := func(x *text) {
		for _, g := range x.segs {
			if v.isLater(g.kind) && !slices.Contains(later, g.lit) {
				later = append(later, g.lit)
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

// isLater reports whether a variable has no value before an attempt.
func (v *values) isLater(k varKind) bool {
	switch k {
	case varLiteral, varParam, varName:
		return false
	case varWorkDir:
		return v.rt == nil && !v.planned
	case varConfig:
		return v.rt == nil && v.config == ""
	}
	return v.rt == nil
}

// startsLater reports whether a config's path depends on something known only to an
// attempt. Without a path, the file is named by its content.
func (c *configText) startsLater() bool {
	texts := []*text{&c.base}
	if c.path != nil {
		texts = append(texts, c.path)
	} else {
		for i := range c.sets {
			texts = append(texts, &c.sets[i].value)
		}
	}
	v := values{planned: true}
	return slices.ContainsFunc(texts, func(t *text) bool {
		return slices.ContainsFunc(t.segs, func(g segment) bool { return v.isLater(g.kind) })
	})
}
