package jobspec

import (
	"bytes"
	"cmp"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"al.essio.dev/pkg/shellescape"
	"gopkg.in/yaml.v3"

	"gpurun/jobspec/expand"
	"gpurun/jobspec/lint"
	"gpurun/jobspec/settings"
	"gpurun/jobspec/source"
)

var jobsAtTop = regexp.MustCompile(`(?m)^["']?jobs["']?[ \t]*:`)

// isYAML reports whether a file of unknown format has jobs at its top level, in YAML or JSON.
func isYAML(s *source.Source) bool {
	return jobsAtTop.Match(s.Data) || bytes.HasPrefix(bytes.TrimSpace(s.Data), []byte("{"))
}

// readYAML reads a file of native jobs and experiments. The file's settings may be usable even if
// its jobs are not.
func (f *fileJobs) readYAML() {
	f.root = f.src.Parse(ourKeys())
	f.partial = f.root == nil || !f.src.Resolve(f.root)
	if !f.partial && isSweep(f.root) && strings.HasSuffix(f.opts.Command, "convert") {
		f.batch.Sweep, f.partial = convertSweep(f.src, f.root), true
	}
	f.partial = f.partial || !checkTop(f.src, f.root)
}

func (f *fileJobs) yamlSettings() []settings.Given {
	if n := source.Child(f.root, "settings"); !source.IsNull(n) {
		return settings.FromMapping(f.src, n, jobKeys)
	}
	return nil
}

// yamlJobs creates the jobs of a YAML file.
func (f *fileJobs) yamlJobs() {
	f.style = native
	if f.partial {
		return
	}
	s, root := f.src, f.root
	defaults := source.Child(root, "defaults")
	if !source.IsNull(defaults) {
		defaults = canonicalKeys(s, defaults, "defaults")
	}
	jobs := source.Child(root, "jobs")
	switch {
	case jobs.Kind != yaml.SequenceNode:
		hint := "start each job with \"- name: …\""
		if len(jobs.Content) > 0 {
			hint = fmt.Sprintf("write a list: \"- name: %s\"", jobs.Content[0].Value)
		}
		s.Problem(jobs.Line, jobs.Column, hint, "jobs must be a list of jobs, not %s", source.Describe(jobs))
	case len(jobs.Content) == 0:
		s.Problem(jobs.Line, jobs.Column, "", "jobs is an empty list")
	default:
		for i, n := range jobs.Content {
			f.job(i, n, defaults)
		}
		f.checkAmong("no job has a parameter", f.among, slices.Compact(slices.Sorted(slices.Values(f.params))))
	}
}

// checkTop refuses unknown keys at the top of a file, except keys that begin with x-, which can
// hold anchors.
func checkTop(s *source.Source, root *yaml.Node) bool {
	if root.Kind != yaml.MappingNode {
		s.Problem(root.Line, root.Column, "a job file starts with \"jobs:\"", "the top level of a job file must be a mapping, not %s", source.Describe(root))
		return false
	}
	if isSweep(root) {
		target := "jobs.yaml"
		if _, err := os.Lstat(target); err == nil {
			target = "NEW.yaml"
		}
		s.Problem(0, 0, "run gpurun convert "+shellescape.Quote(s.Path)+" > "+target, "is a W&B sweep, not a job file")
		return false
	}
	for k := range source.Each(root) {
		if slices.Contains(source.TopKeys, k.Value) || strings.HasPrefix(k.Value, "x-") {
			continue
		}
		hint := source.DidYouMean(k.Value, source.TopKeys, "valid keys: settings, defaults, jobs")
		if own := source.ForeignTopKeys[strings.ToLower(k.Value)]; own != "" {
			hint = "use " + own + " instead"
		}
		if slices.Contains(settings.Names(), k.Value) {
			hint = "it is a setting: move it under settings"
		} else if slices.Contains(jobKeys, k.Value) {
			hint = "it is a job key: move it into a job, or under defaults"
		}
		s.Problem(k.Line, k.Column, hint, "unknown key %q at the top level", k.Value)
	}
	if source.Child(root, "jobs") == nil {
		s.Problem(root.Line, root.Column, "add jobs: and a list of jobs", "missing key \"jobs\"")
		return false
	}
	return true
}

// job reads the i-th job of the file and expands it.
func (f *fileJobs) job(i int, n, defaults *yaml.Node) {
	s := f.src
	if n.Kind != yaml.MappingNode {
		f.partial = true
		hint := "write \"- run: …\""
		if n.Kind == yaml.ScalarNode {
			first, _, _ := strings.Cut(strings.TrimSpace(n.Value), " ")
			hint = cmp.Or(source.WantsColon(first, ourKeys()), hint)
		}
		s.Problem(n.Line, n.Column, hint, "a job must be a mapping, not %s", source.Describe(n))
		return
	}
	own := canonicalKeys(s, n, "a job")
	p := f.newProto(native, n.Line, n.Column)
	p.keys = overlay(defaults, own, false)
	for k := range source.Each(p.keys) {
		p.inherited[k.Value] = source.Child(own, k.Value) == nil
	}
	var whole bool
	keys := expand.Keys{Matrix: p.get("matrix"), Zip: p.get("zip"), Sample: p.get("sample"), Params: p.get("params")}
	p.Matrix, whole = expand.Read(s, keys, f.givens)
	if whole && f.givens.Any(p.Matrix) {
		quiet := *s
		quiet.Out = &source.Report{}
		if m, ok := expand.Read(&quiet, keys, expand.Givens{}); ok {
			p.written = m
		}
	}
	p.scope.Params, p.scope.Partial = p.Matrix.Always, p.Matrix.Partial
	p.nestedFormats()
	config := p.get("config")
	if path := config != nil && config.Kind == yaml.ScalarNode && p.get("run") == nil; path && p.get("algorithm") != nil {
		p.style, f.style = experiment, experiment
		p.experiment()
	} else if path {
		s.Problem(p.Line, p.Col, "add algorithm: …, or add run: … and write config: {base: "+config.Value+", set: {…}}", "the job has a config, but neither run nor algorithm")
	} else {
		p.refuseListKeys()
		p.run()
		p.readConfig()
	}
	p.readName(i)
	p.readResources()
	p.readRest()
	if whole {
		f.expand(p)
		p.lint(source.Child(n, "params"))
		return
	}
	f.partial = true
	if !slices.ContainsFunc(p.Resources, func(r expand.Resource) bool {
		return slices.ContainsFunc(r.Texts, func(t *expand.Text) bool { return !t.Constant() })
	}) {
		p.spec(&expand.Values{}) // reports its problems
	}
}

func (p *proto) readName(i int) {
	n := p.get("name")
	if n == nil {
		p.Name = expand.Literal(fmt.Sprintf("job-%d", i+1), p.Line, p.Col)
		return
	}
	t, ok := p.text(n, "name", expand.InName)
	p.Name, p.Told = t, !ok
	p.nestedName()
	if ok && t.Raw == "" {
		p.Told = true
		p.src.Problem(n.Line, n.Column, "remove it to get job-1, job-2, …", "name is empty")
	}
}

// readRest reads the keys that the YAML dialects share.
func (p *proto) readRest() {
	p.readEnv()
	p.WorkDir = p.optional("work_dir", expand.InJob)
	p.readShell()
	p.readSetup()
	p.Log = p.optional("log", expand.InLog)
	p.Stdout = p.optional("stdout", expand.InLog)
	p.Stderr = p.optional("stderr", expand.InLog)
	if apart := p.Stdout != nil || p.Stderr != nil; apart && p.Log != nil {
		if !p.inherited["log"] {
			p.src.Problem(p.Log.Line, p.Log.Col, "keep log for combined output, or stdout and stderr", "log is set together with stdout or stderr")
		}
		p.Log = nil
	}
	p.Outputs = p.textList("outputs", expand.InJob)
	p.Inputs = p.textList("inputs", expand.InJob)
	p.Needs = p.textList("needs", expand.InJob)
	p.readMetrics()
	if n := p.get("notify"); n != nil {
		p.notify = settings.JobNotify(p.src, n)
	}
	p.Queue = p.optional("queue", expand.InJob)
	p.checkPaths()
	if p.get("config") == nil {
		p.noConfig(append(p.Logs(), p.Run()...))
	}
	if c := p.Config; c != nil && p.LogsUse(expand.VarConfig) && slices.ContainsFunc(c.Sets, func(s expand.Set) bool { return s.Value.Uses(expand.VarLog) }) {
		p.src.Problem(p.Line, p.Col, "remove one of them", "log uses {config} and config.set uses {log}, so they depend on each other")
	}
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
			p.src.Problem(log.Line, log.Column, "keep only one", "log_path and log (line %d) are the same key", other.Line)
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
	if seed := source.Child(extra, "seed"); !source.IsNull(seed) && p.file.settings.SeedAs == "config" {
		config, skip = p.seededCopy(base, seed), "seed"
	}
	p.Args = append(p.Args, expand.Arg{Key: "cfp", Value: config, Tag: "!!str"}, expand.Arg{Key: "algo", Value: algorithm, Tag: "!!str"})
	p.readArgs("extra_args", extra, skip)
	p.readArgs("args", p.get("args"), "")
	lint.ArgsPlace(p.src, p.Job, true)
}

// seededCopy sets the seed in a copy of the config and returns the copy's path: configs/SVHN.yaml
// becomes configs/temp/SVHN_seed42.yaml.
func (p *proto) seededCopy(base *expand.Text, seed *yaml.Node) *expand.Text {
	value, ok := p.text(seed, "extra_args: seed", expand.InJob)
	if !ok {
		return base
	}
	dir, file := filepath.Split(base.Raw)
	ext := filepath.Ext(file)
	copied := dir + "temp/" + strings.TrimSuffix(file, ext) + "_seed" + value.Raw + ext
	path, _ := p.compile(copied, base.Line, base.Col, "config", expand.InJob)
	p.Config = &expand.Config{Base: base, Path: path, Sets: []expand.Set{{Path: []string{"seed"}, Place: true, Value: value, Tag: seed.ShortTag()}}}
	return path
}
