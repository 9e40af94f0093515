package jobspec

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	"gpurun/jobspec/configedit"
	"gpurun/jobspec/expand"
	"gpurun/jobspec/source"

	"gopkg.in/yaml.v3"
)

// readConfig reads config: {base: …, set: {…}, path: …}.
func (p *proto) readConfig() {
	n := p.get("config")
	if n == nil {
		return
	}
	if n.Kind == yaml.ScalarNode {
		p.src.Problem(n.Line, n.Column, fmt.Sprintf("write config: {base: %s, set: {…}}, or, for an experiment, use the key algorithm instead of run", n.Value), "with run, config must be a mapping, not %s", source.Describe(n))
		return
	}
	words := []string{"base", "set", "path"}
	c := &expand.Config{Base: &expand.Text{}}
	p.src.Pairs(n, "config", func(k, v *yaml.Node) {
		switch k.Value {
		case "base":
			t, ok := p.text(v, "config.base", expand.InJob)
			c.Base, c.Bad = t, !ok
		case "path":
			if t, ok := p.text(v, "config.path", expand.InConfig); ok {
				c.Path = t
			}
		case "set":
			p.readSets(c, nil, false, v)
		default:
			p.src.Problem(k.Line, k.Column, source.DidYouMean(k.Value, words, "valid keys: base, set, path"), "unknown key %q in config", k.Value)
		}
	})
	if c.Base.Raw == "" && !c.Bad {
		c.Bad = true
		p.src.Problem(n.Line, n.Column, "add base: configs/a.yaml", "config has no base")
	}
	p.Config = c
}

func (p *proto) readSets(c *expand.Config, under []string, add bool, n *yaml.Node) {
	p.src.Pairs(n, "config.set", func(k, v *yaml.Node) {
		key, adds := strings.CutPrefix(k.Value, "+")
		parts := strings.Split(key, ".")
		if slices.Contains(parts, "") {
			p.src.Problem(k.Line, k.Column, "try optim.lr", "config.set: invalid key %q", k.Value)
			return
		}
		path := slices.Concat(under, parts)
		adds = adds || add
		if v.Kind == yaml.MappingNode {
			if hint := source.QuoteHint(v); hint != "" {
				p.src.Problem(v.Line, v.Column, hint, "config.set: %q must be a single value, not a mapping", k.Value)
				return
			}
			p.readSets(c, path, adds, v)
			return
		}
		if v.Kind == yaml.SequenceNode {
			p.src.Problem(v.Line, v.Column, fmt.Sprintf("set its elements one by one, for example %s.0", k.Value), "config.set: %q must be a single value, not a list", k.Value)
			return
		}
		text, tag, ok := p.src.Scalar(v, "config.set")
		if !ok {
			return
		}
		t, _ := p.compile(text, v.Line, v.Column, "config.set", expand.InConfig)
		c.Sets = append(c.Sets, expand.Set{Path: path, Add: adds, Value: t, Tag: tag})
	})
}

// open returns the base config, which is read once for all jobs, and the changes that one job
// makes. It calls note before it reads the base.
func (b *Batch) open(c *expand.Config, v *expand.Values, note func(path string)) (base *configedit.File, sets []configedit.Set, problems []Problem) {
	path, err := c.BasePath(v)
	if err != nil {
		return nil, nil, []Problem{{Text: "config.base: " + err.Error()}}
	}
	base, ok := b.bases[path]
	if !ok {
		note(path)
		data, err := source.ReadRegular(path)
		if err != nil {
			return nil, nil, []Problem{{Line: c.Base.Line, Col: c.Base.Col, Text: fmt.Sprintf("config %q: %s (%s)", c.Base.Raw, err, path)}}
		}
		base = configedit.Open(path, data)
		b.bases[path] = base
	}
	for _, s := range c.Sets {
		sets = append(sets, configedit.Set{
			Path: s.Path, Add: s.Add || s.Place && !base.Has(s.Path[0]), Line: s.Value.Line, Col: s.Value.Col,
			Value: configedit.Value{Text: s.Value.Render(v), Tag: v.TagOf(s.Value, s.Tag)},
		})
	}
	return base, sets, nil
}

// config returns the copy for one attempt.
func (b *Batch) config(c *expand.Config, v *expand.Values) (*Config, error) {
	base, sets, problems := b.open(c, v, func(string) {})
	var content []byte
	if len(problems) == 0 {
		content, problems = base.Edit(sets)
	}
	if len(problems) > 0 {
		return nil, errors.New(problems[0].Text)
	}
	if c.Path != nil {
		path, err := expand.Absolute(v.WorkDir, c.Path.Render(v))
		return &Config{Base: base.Name, Path: path, Content: content}, err
	}
	dir, file := filepath.Split(base.Name)
	ext := filepath.Ext(file)
	sum := sha256.Sum256(content)
	name := fmt.Sprintf(".%s.%s.gpurun%s", strings.TrimSuffix(file, ext), hex.EncodeToString(sum[:8]), ext)
	return &Config{Base: base.Name, Path: filepath.Join(dir, name), Content: content, ByContent: true}, nil
}
