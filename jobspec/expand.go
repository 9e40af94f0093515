package jobspec

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"

	"gpurun/jobspec/expand"
	"gpurun/jobspec/source"
)

// expand creates the jobs of one proto.
func (f *fileJobs) expand(p *proto) {
	b, n := f.batch, p.Matrix.Count()
	if len(b.Jobs)+n > expand.MaxJobs {
		p.src.Problem(p.Line, p.Col, "", "with this job, the batch has more than %d million jobs", expand.MaxJobs/1_000_000)
		return
	}
	b.Jobs = slices.Grow(b.Jobs, n)
	if len(f.called) == 0 {
		f.called, f.alike = make(map[string]int32, n), make(map[Key]int32, n)
	}
	p.distinguish()
	for i := range n {
		v := p.Matrix.Values(i, "")
		v.Name = p.nameOf(v)
		name := v.Name
		spec := p.spec(v)
		if bad := badName(name); bad != "" {
			p.refuseName(v, bad)
			f.partial = true
			continue
		}
		job := Job{ID: len(b.Jobs), File: f.index, Name: name, Spec: spec, Queue: -1, combo: int32(i)}
		if twin, taken := f.called[name]; taken {
			f.refuseTwin(&b.Jobs[twin], &job)
			f.partial = true
			continue
		}
		f.called[name] = int32(job.ID)
		job.Key = p.key(v)
		b.Jobs = append(b.Jobs, job)
	}
}

// distinguish appends the values of parameters that the name does not contain if two expansions
// would otherwise have the same name, either with the file's own values or with those from -p.
// Because it always checks the file's own values, jobs selected with -p keep their names.
func (p *proto) distinguish() {
	for _, m := range []*expand.Matrix{p.written, p.Matrix} {
		if m == nil {
			continue
		}
		if params := p.unnamed(m); len(params) > 0 && p.repeats(m) {
			p.Suffix = append(p.Suffix, params...)
		}
	}
	for _, m := range []*expand.Matrix{p.written, p.Matrix} {
		p.hashed = p.hashed || m != nil && len(p.Suffix) > 0 && p.repeats(m)
	}
}

// unnamed returns the parameters that distinguish expansions and are not in the name.
func (p *proto) unnamed(m *expand.Matrix) []string {
	return slices.DeleteFunc(m.Named(), func(param string) bool {
		return slices.Contains(p.Suffix, param) || slices.ContainsFunc(p.Name.Segs, func(g expand.Segment) bool { return g.Kind == expand.VarParam && g.Param == param })
	})
}

// repeats reports whether two expansions have the same name.
func (p *proto) repeats(m *expand.Matrix) bool {
	seen := map[string]bool{}
	for i := range m.Count() {
		name := p.nameOf(m.Values(i, ""))
		if seen[name] {
			return true
		}
		seen[name] = true
	}
	return false
}

func (p *proto) nameOf(v *expand.Values) string {
	name := p.named(v, p.spell)
	if len(name) > maxSegment && badName(name) != "" {
		return p.named(v, func(value string) string { return shortenValue(p.spell(value), value) })
	}
	return name
}

// spell returns a value as it appears in names. If names would otherwise repeat, it adds a hash to
// each value with characters that are not allowed in names.
func (p *proto) spell(value string) string {
	s := sanitize(value)
	if p.hashed && s != value {
		s += "-" + shortHash(value)
	}
	return s
}

func (p *proto) named(v *expand.Values, spell func(string) string) string {
	name := p.Name.Render(v)
	for _, s := range p.Suffix {
		if slices.ContainsFunc(v.Params, func(param *Param) bool { return param.Name == s }) {
			name += "-" + spell(v.Param(s).Text)
		}
	}
	return name
}

// shortenValue shortens a long value for use in a name, and adds a hash to keep it unique.
func shortenValue(spelt, value string) string {
	const most = 40
	if len(spelt) <= most {
		return spelt
	}
	return strings.TrimRight(spelt[:most], "_") + "-" + shortHash(value)
}

// sanitize replaces characters that are not allowed in names.
func sanitize(value string) string {
	b := []byte(value)
	for i, c := range b {
		if !nameByte(c) || c == '/' {
			b[i] = '_'
		}
	}
	return cmp.Or(string(b), "none")
}

func nameByte(c byte) bool {
	return c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9' || strings.IndexByte("._-+=,@/", c) >= 0
}

// maxSegment is the maximum length of one segment of a name, which may become the file name of a
// log.
const maxSegment = 200

// badName returns what is wrong with a name, or "".
func badName(name string) string {
	for seg := range strings.SplitSeq(name, "/") {
		for i, r := range seg {
			if !nameByte(seg[i]) {
				return fmt.Sprintf("contains %q", string(r))
			}
		}
		switch {
		case seg == "":
			return "has an empty segment"
		case seg == "." || seg == "..":
			return fmt.Sprintf("has the segment %q", seg)
		case len(seg) > maxSegment:
			return fmt.Sprintf("has a segment longer than %d characters", maxSegment)
		}
	}
	return ""
}

// refuseName reports an invalid name, once for all expansions of a job.
func (p *proto) refuseName(v *expand.Values, bad string) {
	if p.Told {
		return
	}
	p.Told = true
	name, hint := v.Name, "use letters, digits and . _ - + = , @ /"
	for _, g := range p.Name.Segs {
		if g.Kind == expand.VarParam && strings.ContainsFunc(v.Param(g.Param).Text, func(r rune) bool { return r >= utf8.RuneSelf || !nameByte(byte(r)) }) {
			hint = "remove {" + g.Param + "}: gpurun appends its value to repeated names, with _ in place of invalid characters"
		}
	}
	if m := expand.Variable.FindStringSubmatch(name[max(0, strings.IndexByte(name, '{')):]); m != nil {
		known := "parameters of this job: " + strings.Join(p.Matrix.Always, ", ")
		if len(p.Matrix.Always) == 0 {
			known = "this job has no parameters: add matrix or params"
		}
		hint = source.DidYouMean(m[1], p.Matrix.Always, known)
	}
	p.src.Problem(p.Name.Line, p.Name.Col, hint, "job name %q %s", source.Clip(name), bad)
}

func (f *fileJobs) refuseTwin(first, again *Job) {
	t, o := again.Spec.text, first.Spec.text
	switch {
	case t.Told:
	case o == t:
		f.src.Problem(t.Name.Line, t.Name.Col, "does the matrix have the same value twice?", "two jobs of this matrix are named %q", again.Name)
	default:
		f.src.Problem(t.Name.Line, t.Name.Col, "names must be unique in a file", "job name %q is already used on line %d", again.Name, o.Line)
	}
	t.Told = true
}
