package jobspec

import (
	"bytes"
	"cmp"
	"fmt"
	"regexp"
	"slices"
	"strings"

	"gpurun/jobspec/expand"
	"gpurun/jobspec/settings"
	"gpurun/jobspec/slips"
	"gpurun/jobspec/source"
	"gpurun/jobspec/words"
	"gpurun/jobspec/written"

	"gopkg.in/yaml.v3"
)

var jobsAtTop = regexp.MustCompile(`(?m)^["']?jobs["']?[ \t]*:`)

// isYAML reports whether a file of unknown kind has jobs at its top, in YAML or JSON.
func isYAML(s *source.Source) bool {
	return jobsAtTop.Match(s.Data) || bytes.HasPrefix(bytes.TrimSpace(s.Data), []byte("{"))
}

// readYAML reads a file of native jobs and experiments. If its jobs are not usable, its
// settings may be.
func (f *fileJobs) readYAML() {
	f.root = f.src.Parse(ourKeys())
	f.partial = f.root == nil || !f.src.Resolve(f.root) || !checkTop(f.src, f.root)
}

func (f *fileJobs) yamlSettings() []settings.Given {
	if n := source.Child(f.root, "settings"); n != nil && !source.IsNull(n) {
		return settings.FromMapping(f.src, n)
	}
	return nil
}

// yamlJobs makes the jobs of a YAML file.
func (f *fileJobs) yamlJobs() {
	f.style = native
	if f.partial {
		return
	}
	s, root := f.src, f.root
	defaults := source.Child(root, "defaults")
	if defaults != nil && !source.IsNull(defaults) {
		defaults = canonicalKeys(s, defaults, "defaults")
	} else {
		defaults = nil
	}
	jobs := source.Child(root, "jobs")
	switch {
	case jobs.Kind == yaml.MappingNode:
		hint := "write a list: \"- name: …\" for each job"
		if len(jobs.Content) > 0 {
			hint = fmt.Sprintf("write a list: \"- name: %s\"", jobs.Content[0].Value)
		}
		s.Problem(jobs.Line, jobs.Column, hint, "jobs must be a list of jobs, not a mapping")
	case jobs.Kind != yaml.SequenceNode:
		s.Problem(jobs.Line, jobs.Column, "write a list: \"- name: …\" for each job", "jobs must be a list of jobs, not %s", source.Describe(jobs))
	case len(jobs.Content) == 0:
		s.Problem(jobs.Line, jobs.Column, "", "jobs is an empty list")
	default:
		for i, n := range jobs.Content {
			f.job(i, n, defaults)
		}
	}
}

// checkTop refuses unknown keys at the top of a file. Keys that begin with x- are free,
// as a place for anchors.
func checkTop(s *source.Source, root *yaml.Node) bool {
	if root.Kind != yaml.MappingNode {
		s.Problem(root.Line, root.Column, "a job file starts with \"jobs:\"", "the top level of a job file must be a mapping, not %s", source.Describe(root))
		return false
	}
	for k := range source.Each(root) {
		if slices.Contains(words.Top, k.Value) || strings.HasPrefix(k.Value, "x-") {
			continue
		}
		hint := source.DidYouMean(k.Value, words.Top, "valid keys: settings, defaults, jobs")
		if own := words.ForeignTop[strings.ToLower(k.Value)]; own != "" {
			hint = "in gpurun it is " + own
		}
		if slices.Contains(settings.Names(), k.Value) {
			hint = "it is a setting: move it under settings"
		} else if slices.Contains(words.Job, k.Value) {
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
	p.Matrix, whole = expand.Read(s, p.get("matrix"), p.get("zip"), p.get("params"))
	p.scope.Params, p.scope.Partial = p.Matrix.Always, p.Matrix.Partial
	p.nestedFormats()
	if p.isExperiment() {
		p.style, f.style = experiment, experiment
		p.experiment()
	} else if config := p.get("config"); config != nil && config.Kind == yaml.ScalarNode && p.get("run") == nil {
		s.Problem(p.Line, p.Col, "add algorithm: …; or run, and config: {base: "+config.Value+", set: {…}}", "this job has a config, but neither run nor algorithm")
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
	if !slices.ContainsFunc(p.Resources, func(r written.Resource) bool {
		return slices.ContainsFunc(r.Texts, func(t *expand.Text) bool { return !t.Constant() })
	}) {
		p.spec(&expand.Values{}) // for the problems it reports
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

// onlyShell matches an item of run that affects only its own shell, and so does nothing.
var onlyShell = regexp.MustCompile(`^\s*(cd|export|source|\.|conda\s+activate|module\s+load|set)(\s+[^;&|]*)?$`)

func (p *proto) warnOnlyShell(t *expand.Text, hint string) {
	if onlyShell.MatchString(t.Raw) {
		p.src.Warning(t.Line, t.Col, hint, "%q has no effect on the next command: each runs in its own shell", source.Clip(t.Raw))
	}
}

func (p *proto) run() {
	n := p.get("run")
	if n == nil {
		p.src.Problem(p.Line, p.Col, "add run: python train.py", "this job has no run")
		return
	}
	p.Commands = p.textList("run", expand.AtStart)
	slips.Commands(p.src, n, p.get("env"), slices.Concat(p.scope.Params, p.scope.Partial))
	if n.Kind == yaml.SequenceNode && len(n.Content) > 1 {
		for _, c := range p.Commands {
			p.warnOnlyShell(c, "write run: | and one script instead of a list")
		}
	}
	p.readArgs("args", p.get("args"), "")
	slips.ArgsPlace(p.src, p.Job, p.style == experiment)
}

// readArgs reads all arguments but one.
func (p *proto) readArgs(what string, n *yaml.Node, skip string) {
	if n == nil {
		return
	}
	p.src.Pairs(n, what, func(k, v *yaml.Node) {
		if k.Value == skip && skip != "" {
			return
		}
		if k.Value == "" || strings.ContainsAny(k.Value, " \t\n'\"$`\\;&|<>()") {
			p.src.Problem(k.Line, k.Column, "", "invalid argument name %q", k.Value)
			return
		}
		if v.Kind == yaml.SequenceNode {
			p.src.Problem(v.Line, v.Column, "write it in run", "%s: %q must be a single value, not a list", what, k.Value)
			return
		}
		s, tag, ok := p.src.Scalar(v, what+": "+k.Value)
		if !ok {
			return
		}
		if slices.ContainsFunc(p.Args, func(a written.Arg) bool { return a.Key == k.Value }) {
			p.src.Problem(k.Line, k.Column, "keep only one", "%s: duplicate argument %q", what, k.Value)
			return
		}
		if tag == "!!null" { // passes no argument: the job is the same without it
			if name, rest, ok := strings.Cut(k.Value, ":"); ok {
				p.src.Problem(k.Line, k.Column, "add a space after the colon: "+name+": "+rest, "%s: %q has no value", what, k.Value)
			}
			return
		}
		slips.Literal(p.src, v, what+": "+k.Value)
		slips.Switch(p.src, k, v, what)
		t, _ := p.compile(s, v.Line, v.Column, what, expand.AtStart)
		p.Args = append(p.Args, written.Arg{Key: k.Value, Value: t, Tag: tag})
	})
}

var envName = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]*$`)

// ownEnv are variables that gpurun sets for every job.
var ownEnv = []string{"CUDA_VISIBLE_DEVICES", "NVIDIA_VISIBLE_DEVICES", "CUDA_DEVICE_ORDER", "GPURUN_JOB", "GPURUN_UNI_ID", "GPURUN_ATTEMPT", "GPURUN_RESULT"}

func (p *proto) readEnv() {
	n := p.get("env")
	if n == nil {
		return
	}
	p.src.Pairs(n, "env", func(k, v *yaml.Node) {
		switch {
		case !envName.MatchString(k.Value):
			p.src.Problem(k.Line, k.Column, "use letters, digits and _", "invalid environment variable name %q", k.Value)
			return
		case slices.Contains(ownEnv, k.Value):
			hint := "remove it"
			if strings.HasSuffix(k.Value, "VISIBLE_DEVICES") {
				hint = "gpurun chooses the GPUs; for specific ones write gpu_ids"
			}
			p.src.Problem(k.Line, k.Column, hint, "%s is set by gpurun", k.Value)
			return
		}
		if source.IsNull(v) {
			return // removes a default, and does nothing if there is none
		}
		s, _, ok := p.src.Scalar(v, "env: "+k.Value)
		if !ok {
			return
		}
		slips.Literal(p.src, v, "env: "+k.Value)
		t, _ := p.compile(s, v.Line, v.Column, "env", expand.AtStart)
		p.Env = append(p.Env, written.Env{Name: k.Value, Value: t})
	})
}

// readRest reads what the YAML dialects have in common.
func (p *proto) readRest() {
	p.readEnv()
	p.WorkDir = p.optional("work_dir", expand.InJob)
	p.readShell()
	p.Log = p.optional("log", expand.InLog)
	p.Stdout = p.optional("stdout", expand.InLog)
	p.Stderr = p.optional("stderr", expand.InLog)
	if apart := p.Stdout != nil || p.Stderr != nil; apart && p.Log != nil {
		if !p.inherited["log"] {
			p.src.Problem(p.Log.Line, p.Log.Col, "keep log for combined output, or stdout and stderr", "log given together with stdout or stderr")
		}
		p.Log = nil
	}
	p.Outputs = p.textList("outputs", expand.InJob)
	p.Inputs = p.textList("inputs", expand.InJob)
	p.Needs = p.textList("needs", expand.InJob)
	p.Queue = p.optional("queue", expand.InJob)
	p.checkPaths()
	p.checkConfigUse(p.get("config") != nil)
	if c := p.Config; c != nil && p.LogsUse(expand.VarConfig) && slices.ContainsFunc(c.Sets, func(s written.Set) bool { return s.Value.Uses(expand.VarLog) }) {
		p.src.Problem(p.Line, p.Col, "remove one of them", "log names {config}, and config.set names {log}: they depend on each other")
	}
}
