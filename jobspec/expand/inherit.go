package expand

import (
	"regexp"
	"slices"
	"strings"
)

// inherited matches references to gpurun's own environment in a value of env.
var inherited = regexp.MustCompile(`\$(?:\$|([A-Za-z_][A-Za-z0-9_]*)|\{([A-Za-z_][A-Za-z0-9_]*)\})`)

// RenderEnv is like Render, but for a value of env: it also replaces $NAME and ${NAME} with
// inherited variables, and $$ with a dollar sign, except in text from parameters. Without a Runtime,
// as for the key, it replaces none of these.
func (t *Text) RenderEnv(v *Values) string {
	if v.Runtime == nil {
		return t.Render(v)
	}
	value := ""
	for _, g := range t.Segs {
		if g.Kind != VarLiteral {
			value += g.render(v)
			continue
		}
		value += inherited.ReplaceAllStringFunc(g.Lit, func(s string) string {
			if s == "$$" {
				return "$"
			}
			return v.Runtime.inherits(strings.Trim(s, "${}"))
		})
	}
	return value
}

func (rt *Runtime) inherits(name string) string {
	at := slices.IndexFunc(rt.Environ, func(kv string) bool { return strings.HasPrefix(kv, name+"=") })
	if at < 0 {
		return ""
	}
	return rt.Environ[at][len(name)+1:]
}

// Inherits returns the names of the variables that a value of env inherits.
func (t *Text) Inherits() (names []string) {
	for _, g := range t.Segs {
		if g.Kind != VarLiteral {
			continue
		}
		for _, m := range inherited.FindAllStringSubmatch(g.Lit, -1) {
			if name := m[1] + m[2]; name != "" {
				names = append(names, name)
			}
		}
	}
	return names
}
