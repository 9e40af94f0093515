package written

import (
	"slices"

	"gpurun/jobspec/expand"
)

// Kind returns the YAML type of the value: that of the variable if it is a single
// variable, text if variables are mixed with other text, otherwise its own.
func (s *Set) Kind(v *expand.Values) string {
	g := s.Value.Sole()
	switch {
	case s.Value.Constant():
		return s.Tag
	case g == nil:
		return "!!str"
	case g.Kind == expand.VarParam:
		return v.Param(g.Param).Tag
	case g.Kind.Numeric() && v.Runtime != nil:
		return "!!int"
	}
	return "!!str"
}

// BasePath returns the path of the base. It may contain {work_dir}, even while a key
// is made.
func (c *Config) BasePath(v *expand.Values) (string, error) {
	at := *v
	if at.Runtime == nil {
		at.Runtime = &expand.Runtime{}
	}
	return expand.Absolute(v.WorkDir, c.Base.Render(&at))
}

// PerAttempt reports whether the content differs from one attempt to the next.
func (c *Config) PerAttempt() bool {
	return slices.ContainsFunc(c.Sets, func(s Set) bool {
		return slices.ContainsFunc(s.Value.Segs, func(g expand.Segment) bool { return g.Kind >= expand.VarUniID })
	})
}

// StartsLater reports whether a config's path depends on something known only to an
// attempt. Without a path, the file is named by its content.
func (c *Config) StartsLater() bool {
	texts := c.Texts()
	if c.Path != nil {
		texts = texts[:2]
	}
	v := expand.Values{Planned: true}
	return slices.ContainsFunc(texts, func(t *expand.Text) bool { return len(v.Later(t)) > 0 })
}
