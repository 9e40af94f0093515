package jobspec

import (
	"fmt"
	"hash/maphash"
	"slices"
	"strings"

	"gpurun/jobspec/expand"
	"gpurun/jobspec/source"
)

// names renders the names of all expansions and reports whether they are known to
// differ. If they do not, it appends the values of the parameters that the name lacks.
func (p *proto) names(n int) (names []string, differ bool) {
	names = p.render(n)
	if n < 2 || p.file.allDifferent(names) {
		return names, true
	}
	for _, param := range p.matrix.Named() {
		if !slices.ContainsFunc(p.name.Segs, func(g expand.Segment) bool { return g.Kind == expand.VarParam && g.Param == param }) {
			p.suffix = append(p.suffix, param)
		}
	}
	if len(p.suffix) > 0 {
		names = p.render(n)
	}
	return names, false
}

// render writes the names into a few large strings: a million small ones would cost
// the garbage collector more than they are worth.
func (p *proto) render(n int) []string {
	const chunk = 64 << 10
	names := make([]string, n)
	var v expand.Values
	var buf []byte
	var all strings.Builder
	for i := range names {
		v = p.matrix.Values(p.matrix.Combo(i), "", v.Params[:0])
		buf = p.name.Append(buf[:0], &v)
		for _, s := range p.suffix {
			for _, param := range v.Params {
				if param.Name == s {
					buf = appendSafe(append(buf, '-'), v.Resolve(param).Text)
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

// appendSafe spells a value with the characters allowed in names.
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

func nameByte(c byte) bool {
	return c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9' || strings.IndexByte("._-+=,@/", c) >= 0
}

// maxSegment is the maximum length of one segment of a name: a log can be named by it.
const maxSegment = 200

// badName says what is wrong with a name; "" if nothing is.
func badName(name string) string {
	from := 0
	for i := 0; i <= len(name); i++ {
		if i < len(name) && name[i] != '/' {
			if !nameByte(name[i]) {
				return fmt.Sprintf("contains %q", firstRune(name[i:]))
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

// refuseName reports a bad name once for all expansions of a job.
func (p *proto) refuseName(name, bad string) {
	if p.told {
		return
	}
	p.told = true
	hint := "a name may contain letters, digits and . _ - + = , @ /"
	if m := expand.Variable.FindStringSubmatch(name[max(0, strings.IndexByte(name, '{')):]); m != nil {
		known := "parameters of this job: " + strings.Join(p.matrix.Always, ", ")
		if len(p.matrix.Always) == 0 {
			known = "this job has no parameters: add matrix or params"
		}
		hint = source.DidYouMean(m[1], p.matrix.Always, known)
	}
	p.src.Problem(p.name.Line, p.name.Col, hint, "job name %q %s", source.Clip(name), bad)
}

func (l *loader) hash(name string) uint32 { return uint32(maphash.String(l.seed, name)) }

func (l *loader) allDifferent(names []string) bool {
	differ := true
	repeats(byHash(len(names), func(i int) uint32 { return l.hash(names[i]) }),
		func(a, b int32) bool { return names[a] == names[b] },
		func(int32, int32, int) bool { differ = false; return false })
	return differ
}

// sortNames sorts jobs of this file by the hash of their name.
func (f *fileJobs) sortNames(jobs []Job) []uint64 {
	return byHash(len(jobs), func(i int) uint32 { return f.hash(jobs[i].Name) })
}

// dropTwins refuses all but the first of the jobs with the same name.
func (f *fileJobs) dropTwins() {
	first := f.batch.Files[f.index].First
	jobs := f.batch.Jobs[first:]
	var twins [][2]int32
	repeats(f.sortNames(jobs), func(a, b int32) bool { return jobs[a].Name == jobs[b].Name }, func(first, again int32, _ int) bool {
		twins = append(twins, [2]int32{again, first})
		return true
	})
	slices.SortFunc(twins, func(a, b [2]int32) int { return int(a[0] - b[0]) })
	for _, t := range twins {
		f.refuseTwin(&jobs[t[1]], &jobs[t[0]])
		jobs[t[0]].Spec = nil
	}
	if len(twins) == 0 {
		return
	}
	f.partial = true
	kept := slices.DeleteFunc(jobs, func(j Job) bool { return j.Spec == nil })
	f.batch.Jobs = f.batch.Jobs[:len(f.batch.Jobs)-len(twins)]
	for i := range kept {
		kept[i].ID = first + i
	}
}

func (f *fileJobs) refuseTwin(first, again *Job) {
	t, o := again.Spec.text, first.Spec.text
	switch {
	case t.told:
	case o == t:
		f.src.Problem(t.name.Line, t.name.Col, "does the matrix have the same value twice?", "two jobs of this matrix are named %q", again.Name)
	default:
		f.src.Problem(t.name.Line, t.name.Col, "names must be unique in a file", "job name %q is already used on line %d", again.Name, o.line)
	}
	t.told = true
}

// called finds a job of this file by name. All files must have been read.
func (f *fileJobs) called(name string) (id int32, ok bool) {
	file := f.batch.Files[f.index]
	jobs := f.batch.Jobs[file.First:][:file.Count]
	if f.names == nil {
		f.names = f.sortNames(jobs)
	}
	id, ok = lookUp(f.names, f.hash(name), func(o int32) bool { return jobs[o].Name == name })
	return int32(file.First) + id, ok
}
