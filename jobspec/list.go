package jobspec

import (
	"path/filepath"
	"slices"
	"strings"

	"gpurun/jobspec/expand"
	"gpurun/jobspec/slips"
	"gpurun/jobspec/source"
	"gpurun/jobspec/written"

	"gopkg.in/yaml.v3"
)

// isExperiment reports whether a job is of the experiment-list dialect: config is a
// path, and there is an algorithm but no run.
func (p *proto) isExperiment() bool {
	config := p.get("config")
	return config != nil && config.Kind == yaml.ScalarNode && p.get("algorithm") != nil && p.get("run") == nil
}

func (p *proto) refuseListKeys() {
	for k, v := range source.Each(p.keys) {
		switch k.Value {
		case "log_path", "extra_args":
			p.src.Problem(k.Line, k.Column, keyHint(k.Value, v), "unknown key %q in a job", k.Value)
		case "algorithm":
			p.src.Problem(k.Line, k.Column, "an experiment has config: PATH and algorithm, but no run", "unknown key %q in a job", k.Value)
		}
	}
}

// experiment reads what a job of an experiment list runs:
// PROGRAM --cfp CONFIG --algo ALGORITHM --key value …
func (p *proto) experiment() {
	if log := p.get("log_path"); log != nil {
		if other := p.get("log"); other != nil && !p.inherited["log"] {
			p.src.Problem(log.Line, log.Column, "keep only one", "log_path and log (line %d) mean the same", other.Line)
		}
		p.inherited["log"] = false
		p.keys.Content = slices.Concat([]*yaml.Node{{Kind: yaml.ScalarNode, Value: "log"}, log}, p.keys.Content)
	}
	base, okBase := p.text(p.get("config"), "config", expand.InJob)
	algorithm, okAlgo := p.text(p.get("algorithm"), "algorithm", expand.AtStart)
	if !okBase || !okAlgo {
		return
	}
	program, _ := p.compile(p.file.settings.Program, p.Line, p.Col, "program", expand.AtStart)
	p.Commands = []*expand.Text{program}
	config := base
	extra, skip := p.get("extra_args"), ""
	if seed := source.Child(extra, "seed"); seed != nil && !source.IsNull(seed) && p.file.settings.SeedAs == "config" {
		config, skip = p.seededCopy(base, seed), "seed"
	}
	p.Args = append(p.Args, written.Arg{Key: "cfp", Value: config, Tag: "!!str"}, written.Arg{Key: "algo", Value: algorithm, Tag: "!!str"})
	p.readArgs("extra_args", extra, skip)
	p.readArgs("args", p.get("args"), "")
	slips.ArgsPlace(p.src, p.Job, true)
}

// seededCopy sets the seed in a copy of the config and returns the copy's path:
// configs/SVHN.yaml becomes configs/temp/SVHN_seed42.yaml.
func (p *proto) seededCopy(base *expand.Text, seed *yaml.Node) *expand.Text {
	value, ok := p.text(seed, "extra_args: seed", expand.InJob)
	if !ok {
		return base
	}
	dir, file := filepath.Split(base.Raw)
	ext := filepath.Ext(file)
	copied := dir + "temp/" + strings.TrimSuffix(file, ext) + "_seed" + value.Raw + ext
	path, _ := p.compile(copied, base.Line, base.Col, "config", expand.InJob)
	p.Config = &written.Config{Base: base, Path: path, Sets: []written.Set{{Path: []string{"seed"}, Place: true, Value: value, Tag: seed.ShortTag()}}}
	return path
}
