package jobspec

import (
	"fmt"
	"slices"
	"strings"
)

// expand makes the jobs of one proto.
func (f *fileJobs) expand(p *proto) {
	b, n := f.batch, p.matrix.count()
	if len(b.Jobs)+n > maxJobs {
		p.src.problem(p.line, p.col, "", "with this job the batch has more than %d million jobs", maxJobs/1_000_000)
		return
	}
	names := p.names(n)
	b.Jobs = slices.Grow(b.Jobs, n)
	v := values{}
	k := keyer{fileJobs: f, proto: p}
	if len(f.byName) == 0 { // the matrix that is most of the file, as a rule
		f.byName = make(map[string]int32, len(names))
	}
	for i := range n {
		combo := p.matrix.combo(i)
		v.params = p.matrix.params(combo, v.params[:0])
		v.name = names[i]
		id, spec := len(b.Jobs), p.spec(&v)
		if !f.takeName(p, names[i], id, &v) {
			f.partial = true
			continue
		}
		j := Job{ID: id, File: f.index, Name: names[i], Spec: spec, Queue: -1, combo: combo}
		if len(f.out.problems) == 0 {
			j.Key = k.key(&v)
		} else if p.config != nil && !p.config.bad {
			k.configHash(p, &v) // for the problems in it
		}
		b.Jobs = append(b.Jobs, j)
	}
}

// names renders the names of all expansions. Where they are not all different,
// the values of the parameters that the name lacks are appended.
func (p *proto) names(n int) []string {
	names := p.render(n)
	if n < 2 || allDifferent(names) {
		return names
	}
	for _, param := range p.matrix.named() {
		if !slices.ContainsFunc(p.name.segs, func(g segment) bool { return g.kind == varParam && g.param == param }) {
			p.suffix = append(p.suffix, param)
		}
	}
	if len(p.suffix) == 0 {
		return names
	}
	return p.render(n)
}

// render writes the names into a few large strings: a million small ones would
// cost the collector more than the names are worth.
func (p *proto) render(n int) []string {
	const chunk = 64 << 10
	names := make([]string, n)
	var v values
	var buf []byte
	var all strings.Builder
	for i := range names {
		v.params = p.matrix.params(p.matrix.combo(i), v.params[:0])
		buf = p.name.append(buf[:0], &v)
		for _, s := range p.suffix {
			for _, param := range v.params {
				if param.Name == s {
					buf = appendSafe(append(buf, '-'), param.Text)
				}
			}
		}
		if all.Cap()-all.Len() < len(buf) {
			all = strings.Builder{}
			all.Grow(min(chunk, (n-i)*(len(buf)+8)) + len(buf))
		}
		from := all.Len()
		all.Write(buf)
		names[i] = all.String()[from:]
	}
	return names
}

// appendSafe spells a value with the characters that names may have.
func appendSafe(buf []byte, s string) []byte {
	if s == "" {
		return append(buf, "none"...)
	}
	for i := range len(s) {
		if c := s[i]; nameByte(c) && c != '/' {
			buf = append(buf, c)
		} else {
			buf = append(buf, '_')
		}
	}
	return buf
}

func allDifferent(names []string) bool {
	seen := make(map[string]struct{}, len(names))
	for _, n := range names {
		seen[n] = struct{}{}
	}
	return len(seen) == len(names)
}

func nameByte(c byte) bool {
	return c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9' || strings.IndexByte("._-+=,@/", c) >= 0
}

// maxSegment is the most that one segment of a name may have, so that a log can
// be called by it.
const maxSegment = 200

// badName says what is wrong with a name, "" for nothing.
func badName(name string) string {
	from := 0
	for i := 0; i <= len(name); i++ {
		if i < len(name) && name[i] != '/' {
			if !nameByte(name[i]) {
				return fmt.Sprintf("has %q in it", firstRune(name[i:]))
			}
			continue
		}
		switch seg := name[from:i]; {
		case seg == "":
			return "has an empty segment"
		case seg == "." || seg == "..":
			return fmt.Sprintf("has the segment %q", seg)
		case len(seg) > maxSegment:
			return fmt.Sprintf("has a segment of more than %d characters", maxSegment)
		}
		from = i + 1
	}
	return ""
}

func firstRune(s string) string {
	for _, r := range s {
		return string(r)
	}
	return ""
}

// takeName holds the rules of names, and that each is there once in its file.
func (f *fileJobs) takeName(p *proto, name string, id int, v *values) bool {
	t := &p.name
	if bad := badName(name); bad != "" {
		if !p.told {
			p.told = true
			hint := "a name has letters, digits and . _ - + = , @ /"
			if m := variable.FindStringSubmatch(name[max(0, strings.IndexByte(name, '{')):]); m != nil {
				hint = didYouMean(m[1], p.matrix.always, "the parameters of this job are "+strings.Join(p.matrix.always, ", "))
			}
			p.src.problem(t.line, t.col, hint, "the name %q %s", clip(name), bad)
		}
		return false
	}
	other, taken := f.byName[name]
	if !taken {
		f.byName[name] = int32(id)
		return true
	}
	if p.told {
		return false
	}
	p.told = true
	if o := f.batch.Jobs[other].Spec.text; o == p.texts {
		p.src.problem(t.line, t.col, "is a value of the matrix there twice?", "two jobs of this matrix are called %q", name)
	} else {
		p.src.problem(t.line, t.col, "names are unique in a file", "the name %q is taken by the job on line %d", name, o.line)
	}
	return false
}
