package jobspec

import (
	"fmt"
	"slices"
	"strings"

	"gpurun/jobspec/source"

	"gopkg.in/yaml.v3"
)

// A proto is one job of the file before expansion.
type proto struct {
	*texts
	src       *source.Source
	file      *fileJobs
	list      bool // an experiment-list job
	block     bool
	scope     scope
	varied    bool            // some resource uses a variable, so expansions may differ in their Spec
	inherited map[string]bool // keys taken from defaults
	specs     map[string]*Spec
	shared    *Spec
}

// text reads a value that may contain variables.
func (p *proto) text(n *yaml.Node, what string, known varSet) (text, bool) {
	s, _, ok := p.src.Scalar(n, what)
	if !ok {
		return text{}, false
	}
	if source.IsNull(n) {
		p.src.Problem(n.Line, n.Column, "give it a value, or remove it", "%s has no value", what)
		return text{}, false
	}
	return p.compile(s, n.Line, n.Column, what, known)
}

// compile parses a string, reports unknown and forbidden variables, and warns about
// words that look like variables but are not.
func (p *proto) compile(s string, line, col int, what string, known varSet) (text, bool) {
	p.scope.known, p.scope.where = known, what
	t, ok := compile(p.src, &p.scope, s, line, col)
	p.checkFormats(&t, what)
	return t, ok
}

func compile(s *source.Source, sc *scope, raw string, line, col int) (text, bool) {
	t, left, bad := sc.compile(raw)
	t.line, t.col = line, col
	for _, e := range bad {
		l, c := s.Find(line, col, e.spelt)
		s.Problem(l, c, e.hint, "%s", e.text)
	}
	for _, word := range left {
		l, c := s.Find(line, col, word)
		s.Warning(l, c, "", "%s in %s is not a variable and stays as written", word, sc.where)
	}
	return t, len(bad) == 0
}

// checkFormats tries each number format on every value of its parameter.
func (p *proto) checkFormats(t *text, what string) {
	for _, g := range t.segs {
		if g.kind != varParam || g.format == "" || g.format == "q" || p.matrix == nil {
			continue
		}
		p.matrix.formatted(g.param, func(v Param) bool {
			_, err := formatNumber(g.format, v.Text)
			if err != nil {
				l, c := p.src.Find(t.line, t.col, g.lit)
				p.src.Problem(l, c, fmt.Sprintf("write {%s}", g.param), "%s in %s: %s", g.lit, what, err)
			}
			return err == nil
		})
	}
}

// formatted calls f for every rendered value of a parameter until it returns false.
func (m *matrix) formatted(name string, f func(Param) bool) {
	if m.nested[name] == nil {
		m.each(name, f)
		return
	}
	var v values
	for i := range m.count() {
		v = m.values(m.combo(i), "", v.params[:0])
		for _, p := range v.params {
			if p.Name == name && !f(v.resolve(p)) {
				return
			}
		}
	}
}

// each calls f for every value a parameter has anywhere, as spelled in the file, until
// it returns false.
func (m *matrix) each(name string, f func(Param) bool) {
	for i := range m.axes {
		a := &m.axes[i]
		if j := slices.Index(a.names, name); j >= 0 {
			for n := range a.size() {
				if !f(a.point(n)[j]) {
					return
				}
			}
		}
	}
	for _, list := range append([][]Param{m.consts}, m.odd...) {
		for _, v := range list {
			if v.Name == name && !f(v) {
				return
			}
		}
	}
}

// optional reads a text that may be missing.
func (p *proto) optional(f fields, key string, known varSet) *text {
	n := f.get(key)
	if n == nil {
		return nil
	}
	t, ok := p.text(n, key, known)
	if !ok {
		return nil
	}
	if t.raw == "" {
		p.src.Problem(n.Line, n.Column, "remove it", "%s is empty", key)
	}
	return &t
}

// textList reads a text or a list of texts.
func (p *proto) textList(f fields, key string, known varSet) []text {
	n := f.get(key)
	if n == nil {
		return nil
	}
	if key == "outputs" || key == "inputs" {
		p.listSlip(key, n)
	}
	var list []text
	for _, item := range p.src.Items(n, key) {
		t, ok := p.text(item, key, known)
		if !ok {
			continue
		}
		if strings.TrimSpace(t.raw) == "" {
			p.src.Problem(item.Line, item.Column, "remove it", "an entry of %s is empty", key)
			continue
		}
		list = append(list, t)
	}
	return list
}

// spec returns the Spec of one expansion; those with equal resources share one.
func (p *proto) spec(v *values) *Spec {
	if !p.varied {
		if p.shared == nil {
			p.shared = p.build(v)
		}
		return p.shared
	}
	var key []byte
	for i := range p.resources {
		for j := range p.resources[i].texts {
			key = append(p.resources[i].texts[j].append(key, v), 0)
		}
	}
	if s := p.specs[string(key)]; s != nil {
		return s
	}
	if p.specs == nil {
		p.specs = map[string]*Spec{}
	}
	s := p.build(v)
	p.specs[string(key)] = s
	return s
}

// shares reports whether jobs that do not set share may share GPUs.
func (p *proto) shares() bool {
	if _, given := p.file.given["share"]; given {
		return p.file.settings.Share
	}
	return p.list
}

// util returns the limit for a job that does not set one.
func (p *proto) util(share bool) int {
	if _, given := p.file.given["max_util"]; given {
		return p.file.settings.MaxUtil
	}
	if p.block || share && !p.list {
		return 100
	}
	return p.file.settings.MaxUtil
}
