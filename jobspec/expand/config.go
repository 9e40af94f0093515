package expand

import (
	"slices"
)

// BasePath returns the path of the base. The path may contain {work_dir}, which is replaced even when
// the job's key is computed.
func (c *Config) BasePath(v *Values) (string, error) {
	at := *v
	if at.Runtime == nil {
		at.Runtime = &Runtime{}
	}
	return Absolute(v.WorkDir, c.Base.Render(&at))
}

// PerAttempt reports whether the content can differ from one attempt to the next.
func (c *Config) PerAttempt() bool {
	return slices.ContainsFunc(c.Sets, func(s Set) bool {
		return slices.ContainsFunc(s.Value.Segs, func(g Segment) bool { return g.Kind >= VarUniID })
	})
}

// StartsLater reports whether the path of a config's copy depends on a value that only an attempt
// has. Without Path, the copy is named after its content, so the path depends on all texts.
func (c *Config) StartsLater() bool {
	texts := c.Texts()
	if c.Path != nil {
		texts = texts[:2]
	}
	v := Values{Planned: true}
	return slices.ContainsFunc(texts, func(t *Text) bool { return len(v.Later(t)) > 0 })
}
