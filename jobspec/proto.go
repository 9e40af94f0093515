package jobspec

import (
	"fmt"
	"slices"
	"strings"

	"gopkg.in/yaml.v3"

	"gpurun/jobspec/expand"
	"gpurun/jobspec/lint"
	"gpurun/jobspec/settings"
	"gpurun/jobspec/source"
)

// A proto is one job in a file before expansion.
type proto struct {
	*expand.Job
	src       *source.Source
	file      *fileJobs
	keys      *yaml.Node // a mapping with canonical keys, defaults filled in
	style     *style
	scope     expand.Scope
	written   *expand.Matrix  // the matrix with the file's own values, if -p replaces some; else nil
	inherited map[string]bool // keys taken from defaults
	unread    bool            // a text has a problem, so what the job uses is unknown
	hashed    bool            // names include a hash of each value that has characters not allowed in names
	notify    []Notify
	specs     map[string]*Spec // by their rendered resources
}

func (f *fileJobs) newProto(s *style, line, col int) *proto {
	return &proto{Job: &expand.Job{Line: line, Col: col, Matrix: &expand.Matrix{}}, src: f.src, file: f, style: s, inherited: map[string]bool{}, specs: map[string]*Spec{}}
}

// get returns the value of a key, or nil.
func (p *proto) get(key string) *yaml.Node { return source.Child(p.keys, key) }

// text reads a value that may contain variables.
func (p *proto) text(n *yaml.Node, what string, known expand.VarSet) (*expand.Text, bool) {
	s, _, ok := p.src.Scalar(n, what)
	if !ok {
		return &expand.Text{}, false
	}
	if source.IsNull(n) {
		p.src.Problem(n.Line, n.Column, "give it a value, or remove it", "%s has no value", what)
		return &expand.Text{}, false
	}
	return p.compile(s, n.Line, n.Column, what, known)
}

// compile parses a string. It reports unknown and forbidden variables, and warns about words that
// look like variables but are not.
func (p *proto) compile(s string, line, col int, what string, known expand.VarSet) (*expand.Text, bool) {
	p.scope.Known, p.scope.Where = known, what
	t, ok := p.scope.Compile(p.src, s, line, col)
	p.unread = p.unread || !ok
	p.checkFormats(t, what)
	return t, ok
}

// checkFormats checks each number format in t against every value of its parameter.
func (p *proto) checkFormats(t *expand.Text, what string) {
	for _, g := range t.Segs {
		if g.Kind != expand.VarParam || g.Format == "" || g.Format == "q" {
			continue
		}
		p.Matrix.Formatted(g.Param, func(v Param) bool {
			_, err := expand.FormatNumber(g.Format, v.Text)
			if err != nil {
				l, c := p.src.Find(t.Line, t.Col, g.Lit)
				p.src.Problem(l, c, fmt.Sprintf("write {%s}", g.Param), "%s in %s: %s", g.Lit, what, err)
			}
			return err == nil
		})
	}
}

// optional reads the text of a key that may be missing.
func (p *proto) optional(key string, known expand.VarSet) *expand.Text {
	n := p.get(key)
	if n == nil {
		return nil
	}
	t, ok := p.text(n, key, known)
	if !ok {
		return nil
	}
	if t.Raw == "" {
		p.src.Problem(n.Line, n.Column, "remove it", "%s is empty", key)
	}
	return t
}

// textList reads the texts of a key whose value is a text or a list of texts.
func (p *proto) textList(key string, known expand.VarSet) []*expand.Text {
	n := p.get(key)
	if n == nil {
		return nil
	}
	if key == "outputs" || key == "inputs" {
		lint.ListSlip(p.src, key, n)
	}
	var list []*expand.Text
	for _, item := range p.src.Items(n, key) {
		t, ok := p.text(item, key, known)
		if !ok {
			continue
		}
		if strings.TrimSpace(t.Raw) == "" {
			p.src.Problem(item.Line, item.Column, "remove it", "an entry of %s is empty", key)
			continue
		}
		list = append(list, t)
	}
	return list
}

// spec returns the Spec of one expansion. Expansions with equal resources share it.
func (p *proto) spec(v *expand.Values) *Spec {
	key := ""
	for _, r := range p.Resources {
		for _, t := range r.Texts {
			if !t.Constant() {
				key += t.Render(v) + "\x00"
			}
		}
	}
	if p.specs[key] == nil {
		p.specs[key] = p.build(v)
	}
	return p.specs[key]
}

// shares reports whether jobs may share GPUs if they do not set the key "share".
func (p *proto) shares() bool {
	if _, given := p.file.given["share"]; given {
		return p.file.settings.Share
	}
	return p.style.share
}

// util returns the utilization limit for a job that does not set one.
func (p *proto) util(share bool) int {
	if _, given := p.file.given["max_util"]; given {
		return p.file.settings.MaxUtil
	}
	if p.style.anyUtil || share && !p.style.ownUtil {
		return 100
	}
	return p.file.settings.MaxUtil
}

// nestedName refuses a name with a parameter whose value contains {name}, which would be circular,
// or {work_dir}, which differs between machines.
func (p *proto) nestedName() {
	for _, g := range p.Name.Segs {
		reach := p.Matrix.Reach[g.Param]
		var text string
		switch {
		case g.Kind != expand.VarParam:
			continue
		case reach.Has(expand.VarName):
			text = fmt.Sprintf("name refers to itself: name → %s → name", g.Param)
		case reach.Has(expand.VarWorkDir):
			text = fmt.Sprintf("%s is not available in name, because its value contains {work_dir}", g.Lit)
		default:
			continue
		}
		p.Told = true
		l, col := p.src.Find(p.Name.Line, p.Name.Col, g.Lit)
		p.src.Problem(l, col, "use the other parameters instead", "%s", text)
	}
}

// nestedFormats checks number formats in the values of parameters.
func (p *proto) nestedFormats() {
	for _, name := range slices.Concat(p.Matrix.Always, p.Matrix.Partial) {
		for _, t := range p.Matrix.Made(name) {
			p.checkFormats(t, "the parameter "+name)
		}
	}
}

// canonicalKeys replaces the keys in a job's mapping with canonical ones and refuses unknown keys.
func canonicalKeys(s *source.Source, n *yaml.Node, what string) *yaml.Node {
	out := &yaml.Node{Kind: yaml.MappingNode, Line: n.Line, Column: n.Column, Tag: "!!map"}
	spelt := map[string]*yaml.Node{}
	empty := "" // the previous key, if it accepts a mapping but has no value
	s.Pairs(n, what, func(k, v *yaml.Node) {
		word := source.OwnKey(k.Value)
		key := keyNamed(word)
		if key == nil || strings.Contains(word, ".") {
			hint := keyHint(k.Value, v)
			if empty != "" {
				hint = "if it is part of " + empty + ", indent it more than " + empty
			}
			s.Problem(k.Line, k.Column, hint, "unknown key %q in %s", k.Value, what)
			return
		}
		if empty = ""; source.IsNull(v) && key.mapping {
			empty = word
		}
		if first := spelt[word]; first != nil {
			s.Problem(k.Line, k.Column, "keep only one", "%q and %q (line %d) are the same key", k.Value, first.Value, first.Line)
			return
		}
		spelt[word] = k
		source.HomeSlip(s, word, v)
		own := *k
		own.Value = word
		out.Content = append(out.Content, &own, v)
	})
	return out
}

// overlay merges a job over the defaults: mappings merge key by key, other values are replaced, and
// null removes a value. With nulls set, as for config.set, null is a value.
func overlay(under, over *yaml.Node, nulls bool) *yaml.Node {
	out := *over
	out.Content = nil
	for k, v := range source.Each(under) {
		mine := source.Child(over, k.Value)
		switch {
		case mine == nil:
			mine = v
		case mine.Kind == yaml.MappingNode && v.Kind == yaml.MappingNode:
			mine = overlay(v, mine, nulls || k.Value == "set")
		}
		if nulls || !source.IsNull(mine) {
			out.Content = append(out.Content, k, mine)
		}
	}
	for k, v := range source.Each(over) {
		if source.Child(under, k.Value) == nil && (nulls || !source.IsNull(v)) {
			out.Content = append(out.Content, k, v)
		}
	}
	return &out
}

// ourKeys returns all words that may begin a line of a job file.
func ourKeys() []string {
	return slices.Concat(source.TopKeys, jobKeys, listKeys, settings.Names())
}

// keyHint returns a hint for a word that is not a job key.
func keyHint(word string, v *yaml.Node) string {
	if hint := source.ForeignHint(word, v); hint != "" {
		return hint
	}
	if n := source.Nearest(word, slices.Concat(jobKeys, listKeys, []string{"command", "depends_on"})); n != "" {
		return "did you mean \"" + n + "\"?"
	}
	if slices.Contains(settings.Names(), word) {
		return "it is a setting: move it under settings"
	}
	return "valid keys: " + strings.Join(jobKeys, ", ")
}
