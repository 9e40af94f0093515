package jobspec

import (
	"fmt"
	"slices"
	"strings"

	"gpurun/jobspec/expand"
	"gpurun/jobspec/written"

	"github.com/bmatcuk/doublestar/v4"
)

// lintOrder reports inputs made by another job of the batch that this job does not wait
// for, and warns about inputs that nobody makes.
func (l *loader) lintOrder() {
	if len(l.batch.Jobs) == 0 {
		return
	}
	var made *producers
	o := &orders{l: l}
	told := map[*written.Job]bool{}
	var v expand.Values
	for i := range l.batch.Jobs {
		j := &l.batch.Jobs[i]
		t := j.Spec.text
		if len(t.Inputs) == 0 || told[t] {
			continue
		}
		if made == nil {
			made = l.producers()
		}
		v = l.values(j, v.Params[:0])
		dir, err := t.Dir(l.batch.Files[j.File].WorkDir, &v)
		if err != nil {
			continue
		}
		at := v
		at.WorkDir, at.Runtime = dir, &Runtime{}
		varies := false
		for n := range t.Inputs {
			varies = varies || !t.Inputs[n].Constant()
			path, err := expand.Absolute(dir, t.Inputs[n].Render(&at))
			if err == nil && l.inputOrder(o, made, j, &t.Inputs[n], path) {
				told[t] = true
			}
		}
		told[t] = told[t] || !varies && t.WorkDir == nil && len(t.Needs) == 0
	}
}

// inputOrder checks one input of one job, and reports whether it found something.
func (l *loader) inputOrder(o *orders, made *producers, j *Job, t *expand.Text, path string) bool {
	by, ok := made.of(path)
	glob := isGlob(path)
	switch {
	case ok && by == j.id32():
	case ok:
		p := &l.batch.Jobs[by]
		if o.ordered(p, j) || o.ordered(j, p) && l.exists(path) {
			return false
		}
		warn := glob || l.exists(path)
		text := fmt.Sprintf("job %q reads %s, which job %q makes, and does not wait for it", j.Name, path, p.Name)
		l.files[j.File].lint(j.Spec.text, Problem{Lint: lintOrder, Line: t.Line, Col: t.Col, Text: text, Hint: fmt.Sprintf("add needs: [%q]", p.Name)}, warn)
		return true
	case glob || len(j.Needs) > 0 || j.Queue >= 0 || l.exists(path):
	default:
		l.files[j.File].lint(j.Spec.text, Problem{Lint: lintMissing, Line: t.Line, Col: t.Col,
			Text: fmt.Sprintf("input %s does not exist, and no job of this batch makes it", path), Hint: "correct the path, or add the job that makes it to needs"}, true)
		return true
	}
	return false
}

// producers maps paths to the first job that makes them.
type producers struct {
	paths map[string]int32
	globs map[string][]madeGlob // by what every match begins with
	heads map[int]bool          // lengths of these beginnings
	count int                   // of globs
	list  []string              // a sample of the paths, sorted, for inputs that are globs
	known map[string]int32
	spent int // matches tried
}

type madeGlob struct {
	pattern string
	job     int32
}

const (
	maxMatched = 2000   // outputs that are globs, and others that input globs are compared with
	maxMatches = 200000 // that are tried in all; a lint must not keep a big batch from starting
)

func (l *loader) producers() *producers {
	m := &producers{paths: map[string]int32{}, globs: map[string][]madeGlob{}, heads: map[int]bool{}, known: map[string]int32{}}
	defer func() { slices.Sort(m.list) }()
	heads := l.inputHeads()
	var last *written.Job
	skip := false
	var v expand.Values
	for i := range l.batch.Jobs {
		j := &l.batch.Jobs[i]
		t := j.Spec.text
		if t != last {
			last, skip = t, !l.mayMake(j, heads)
		}
		if skip {
			continue
		}
		for n := range t.Outputs {
			v = l.values(j, v.Params[:0])
			path := l.outputPath(j, int32(n), &v)
			if isGlob(path) {
				m.addGlob(path, j.id32())
				continue
			}
			if _, ok := m.paths[path]; !ok {
				m.paths[path] = j.id32()
				if len(m.list) < maxMatched {
					m.list = append(m.list, path)
				}
			}
		}
	}
	return m
}

// inputHeads returns what the inputs of all jobs begin with, without duplicates.
func (l *loader) inputHeads() []string {
	var heads []string
	var last *written.Job
	for i := range l.batch.Jobs {
		j := &l.batch.Jobs[i]
		t := j.Spec.text
		if t == last {
			continue
		}
		last = t
		for n := range t.Inputs {
			if h := l.head(j, &t.Inputs[n]); !slices.Contains(heads, h) && len(heads) < 100 {
				heads = append(heads, h)
			} else if len(heads) == 100 {
				return []string{""}
			}
		}
	}
	return heads
}

// head returns what a path begins with in all expansions of a job, "" if that varies.
func (l *loader) head(j *Job, t *expand.Text) string {
	if j.Spec.text.WorkDir != nil || len(t.Segs) == 0 || t.Segs[0].Kind != expand.VarLiteral {
		return ""
	}
	lit := t.Segs[0].Lit
	if strings.Contains(lit, "..") || strings.Contains(lit, "./") || strings.Contains(lit, "//") {
		return ""
	}
	path, err := expand.Absolute(l.batch.Files[j.File].WorkDir, lit)
	if err != nil {
		return ""
	}
	if i := strings.IndexAny(path, "*?["); i >= 0 {
		path = path[:i]
	}
	return path
}

// mayMake reports whether an output of a job may be an input of another, judging by
// what they begin with.
func (l *loader) mayMake(j *Job, heads []string) bool {
	t := j.Spec.text
	for n := range t.Outputs {
		h := l.head(j, &t.Outputs[n])
		if slices.ContainsFunc(heads, func(in string) bool { return strings.HasPrefix(in, h) || strings.HasPrefix(h, in) }) {
			return true
		}
	}
	return false
}

// of returns the job that makes a path, a folder containing it, or a glob matching it.
func (m *producers) of(path string) (int32, bool) {
	if by, ok := m.known[path]; ok {
		return by, by >= 0
	}
	found := int32(-1)
	parents(path, func(p string) bool {
		by, ok := m.paths[p]
		if ok {
			found = by
		}
		return !ok
	})
	if found < 0 {
		found = m.globOf(path)
	}
	if isGlob(path) && found < 0 {
		found = m.sampleOf(path)
	}
	m.known[path] = found
	return found, found >= 0
}

func (m *producers) addGlob(pattern string, job int32) {
	if m.count == maxMatched {
		return
	}
	head := literalHead(pattern)
	m.globs[head], m.heads[len(head)] = append(m.globs[head], madeGlob{pattern, job}), true
	m.count++
}

// globOf returns the first job with an output glob that matches a path, or -1.
func (m *producers) globOf(path string) int32 {
	found := int32(-1)
	for n := range m.heads {
		if n > len(path) {
			continue
		}
		for _, g := range m.globs[path[:n]] {
			if (found < 0 || g.job < found) && m.matches(g.pattern, path) {
				found = g.job
			}
		}
	}
	return found
}

// sampleOf returns the first job with an output that an input glob matches, or -1.
func (m *producers) sampleOf(pattern string) int32 {
	found := int32(-1)
	head := literalHead(pattern)
	from, _ := slices.BinarySearch(m.list, head)
	for _, p := range m.list[from:] {
		if !strings.HasPrefix(p, head) {
			break
		}
		if by := m.paths[p]; (found < 0 || by < found) && m.matches(pattern, p) {
			found = by
		}
	}
	return found
}

// literalHead returns what every path begins with that doublestar matches.
func literalHead(pattern string) string {
	if i := strings.IndexAny(pattern, `*?[{\`); i >= 0 {
		return pattern[:i]
	}
	return pattern
}

func (m *producers) matches(pattern, path string) bool {
	if m.spent == maxMatches {
		return false
	}
	m.spent++
	ok, _ := doublestar.PathMatch(pattern, path)
	return ok
}
