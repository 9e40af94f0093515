package jobspec

import (
	"slices"

	"gpurun/jobspec/expand"
	"gpurun/jobspec/source"

	"gopkg.in/yaml.v3"
)

// blockJobKeys are the job keys allowed in a block file's config.yaml, where they
// apply to all blocks.
var blockJobKeys = []string{"timeout", "retry", "shell", "env", "log", "stdout", "stderr", "gpu_model", "cpus", "memory", "priority"}

// vagueKeys are job keys that a script's own config.yaml may well have too.
var vagueKeys = []string{"name", "run", "params", "args", "outputs", "inputs", "config", "desc", "tags"}

func jobWord(key string) string {
	if own, ok := sameKeys[key]; ok {
		return own
	}
	return key
}

// jobKey takes a job key, or refuses one that a block cannot have: nothing written
// for gpurun is silently dropped.
func (r *blockConfigReader) jobKey(k, v *yaml.Node) bool {
	word := jobWord(k.Value)
	switch {
	case !slices.Contains(jobKeys, word):
		return false
	case slices.Contains(vagueKeys, word):
		r.Warning(k.Line, k.Column, "to use it in gpurun, write the jobs as YAML", "%q is left to your scripts: blocks have no such key", k.Value)
		return true
	case !slices.Contains(blockJobKeys, word):
		r.Problem(k.Line, k.Column, "remove it; for jobs that need it, write the file as YAML", "%q has no effect in a block file", k.Value)
		return true
	}
	if r.config.job == nil {
		r.config.job, r.config.file = &yaml.Node{Kind: yaml.MappingNode, Tag: "!!map", Line: k.Line, Column: k.Column}, r.Source
	}
	if other := source.Child(r.config.job, word); other != nil || word == "retry" && r.config.Retry != nil {
		r.Problem(k.Line, k.Column, "keep only one", "%q is given twice, under two names", word)
		return true
	}
	own := *k
	own.Value = word
	r.config.job.Content = append(r.config.job.Content, &own, v)
	return true
}

// common gives a block the job keys of its config file.
func (p *proto) common(s *Spec, blocks int) {
	c := p.file.config
	if c.job == nil {
		return
	}
	src := p.src
	p.src = c.file
	defer func() { p.src = src }()
	f := fields{c.job, c.job}
	p.readResources(f)
	p.readEnv(f.get("env"))
	p.readShell(f.get("shell"))
	p.Log, p.Stdout, p.Stderr = p.ownFile(f, "log", blocks), p.ownFile(f, "stdout", blocks), p.ownFile(f, "stderr", blocks)
	p.checkPaths()
	p.checkConfigUse(false)
	d := draft{Spec: *s, given: map[string]*expand.Text{}}
	p.read(&d, &expand.Values{Name: p.Name.Raw})
	*s = d.Spec
	s.LogNamed = p.Log != nil || p.Stdout != nil || p.Stderr != nil
}

// ownFile reads the path of a log, which must differ from block to block.
func (p *proto) ownFile(f fields, key string, blocks int) *expand.Text {
	t := p.optional(f, key, expand.InLog)
	if t != nil && blocks > 1 && t.Raw != "/dev/null" && !t.Uses(expand.VarName) && !t.Uses(expand.VarUniID) {
		p.src.Problem(t.Line, t.Col, "add {name} to the path", "%s: all %d blocks would write to the same file, %s", key, blocks, t.Raw)
		return nil
	}
	return t
}
