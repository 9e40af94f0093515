package jobspec

import (
	"slices"
	"strconv"

	"gopkg.in/yaml.v3"

	"gpurun/gpu"
	"gpurun/jobspec/expand"
	"gpurun/jobspec/lint"
	"gpurun/jobspec/slips"
	"gpurun/jobspec/source"
	"gpurun/jobspec/units"
	"gpurun/jobspec/written"
)

// resourceKeys tells how to parse each key into a Spec, in the order they apply.
var resourceKeys = []struct {
	key  string
	list bool
	read func(d *draft, values []string) error
}{
	{"gpus", false, func(d *draft, v []string) error {
		least, most, err := units.ParseGPUs(v[0])
		if err == nil {
			d.Request.Min, d.Request.Max = least, most
		}
		return err
	}},
	{"gpu_memory", false, func(d *draft, v []string) (err error) {
		d.Request.Memory, err = units.ParseSize(v[0])
		return err
	}},
	{"gpu_model", true, func(d *draft, v []string) error {
		if slices.Contains(v, "") {
			return source.Faultf("try a100", "an empty name matches every GPU")
		}
		d.Request.Models = gpu.NamesOf(v)
		return nil
	}},
	{"gpu_ids", true, func(d *draft, v []string) error {
		var all []string
		for _, s := range v {
			ids, err := units.ParseGPUIDs(s)
			if err != nil {
				return err
			}
			all = append(all, ids...)
		}
		d.Request.IDs = gpu.NamesOf(all)
		return nil
	}},
	{"max_util", false, func(d *draft, v []string) (err error) {
		d.Request.MaxUtil, err = units.ParsePercent(v[0])
		return err
	}},
	{"cpus", false, func(d *draft, v []string) (err error) {
		d.CPUs, err = units.ParseCount(v[0], 0)
		d.CPUsGiven = true
		return err
	}},
	{"memory", false, func(d *draft, v []string) (err error) {
		d.Memory, err = units.ParseSize(v[0])
		return err
	}},
	{"share", false, func(d *draft, v []string) (err error) {
		d.Request.Share, err = units.ParseBool(v[0])
		return err
	}},
	{"priority", false, func(d *draft, v []string) error {
		n, err := strconv.Atoi(v[0])
		if err != nil || n > 1e9 || n < -1e9 {
			return source.Faultf("higher numbers go first", "%q is not a whole number", v[0])
		}
		d.Priority = n
		return nil
	}},
	{"when", false, func(d *draft, v []string) error {
		w, err := units.ParseWord(v[0], string(OnSuccess), string(OnFailure), string(Always))
		d.When = When(w)
		return err
	}},
	{"timeout", false, func(d *draft, v []string) (err error) {
		d.Timeout, err = units.ParseDuration(v[0])
		return err
	}},
	{"leftovers", false, func(d *draft, v []string) (err error) {
		d.Leftovers, err = units.ParseWord(v[0], "auto", "wait", "kill", "fail")
		return err
	}},
	{"retry", false, readRetryMax},
	{"retry.max", false, readRetryMax},
	{"retry.delay", false, func(d *draft, v []string) (err error) {
		d.Retry.Delay, err = units.ParseDuration(v[0])
		return err
	}},
	{"retry.backoff_after", false, func(d *draft, v []string) (err error) {
		d.Retry.BackoffAfter, err = units.ParseCount(v[0], 0)
		return err
	}},
	{"retry.backoff", false, func(d *draft, v []string) (err error) {
		d.Retry.Backoff, err = units.ParseDuration(v[0])
		return err
	}},
	{"retry.on", true, func(d *draft, v []string) error {
		if len(v) == 1 && v[0] == "all" {
			return nil
		}
		for _, kind := range v {
			if _, err := units.ParseWord(kind, "oom", "timeout", "signal", "exit", "lost"); err != nil {
				return err
			}
		}
		d.Retry.On = v
		return nil
	}},
	{"retry.memory_growth", false, func(d *draft, v []string) error {
		f, err := strconv.ParseFloat(v[0], 64)
		if err != nil || !(f >= 1 && f <= 100) {
			return source.Faultf("use a factor from 1 to 100, such as 1.5", "invalid factor %q", v[0])
		}
		d.Retry.MemoryGrowth = f
		return nil
	}},
	{"allow", true, func(d *draft, v []string) (err error) {
		d.Allow, err = lint.ParseAllow(v)
		return err
	}},
	{"desc", false, func(d *draft, v []string) error { d.Desc = v[0]; return nil }},
	{"tags", true, func(d *draft, v []string) error { d.Tags = v; return nil }},
}

func readRetryMax(d *draft, v []string) (err error) {
	if v[0] == "forever" {
		d.Retry.Max = -1
		return nil
	}
	d.Retry.Max, err = units.ParseCount(v[0], 0)
	return err
}

// A draft is a Spec under construction, with the keys that were given.
type draft struct {
	Spec
	given map[string]*expand.Text
}

// build reads the resources of one job, with its parameters put in.
func (p *proto) build(v *expand.Values) *Spec {
	d := &draft{p.style.spec, map[string]*expand.Text{}}
	d.text = p.Job
	d.LogNamed = p.Log != nil || p.Stdout != nil || p.Stderr != nil
	d.HasOutputs, d.HasInputs = len(p.Outputs) > 0, len(p.Inputs) > 0
	for _, rk := range resourceKeys {
		i := slices.IndexFunc(p.Resources, func(r written.Resource) bool { return r.Key == rk.key })
		if i < 0 {
			continue
		}
		r := &p.Resources[i]
		vals := make([]string, len(r.Texts))
		for n, t := range r.Texts {
			vals[n] = t.Render(v)
		}
		at := r.Texts[0]
		d.given[rk.key] = at
		if err := rk.read(d, vals); err != nil {
			p.src.Out.Add(Problem{File: p.src.Path, Line: at.Line, Col: at.Col, Text: rk.key + ": "}.Because(err))
		}
	}
	p.finish(d)
	d.Family = p.familyOf(d.Request)
	return &d.Spec
}

// finish fills in the batch's settings for what the job does not set.
func (p *proto) finish(d *draft) {
	s := p.file.settings
	d.Grace = s.Grace
	d.Allow = slices.Concat(d.Allow, s.Allow)
	r := &d.Request
	if r.Max == 0 {
		for _, key := range []string{"gpu_memory", "gpu_model", "gpu_ids"} {
			if t := d.given[key]; t != nil && !p.inherited[key] {
				p.src.Problem(t.Line, t.Col, "remove it, or set gpus", "%s on a job with gpus: 0", key)
			}
		}
		d.Request = gpu.Request{}
		if d.given["cpus"] == nil {
			d.CPUs = 1
		}
	} else {
		if d.given["share"] == nil {
			r.Share = p.shares()
		}
		if d.given["max_util"] == nil {
			r.MaxUtil = p.util(r.Share)
		}
		if d.given["gpu_memory"] == nil {
			_, given := p.file.given["min_memory"]
			r.Memory, d.DefaultMemory = s.MinMemory, !given
			if t := d.given["memory"]; t != nil {
				p.src.Warning(t.Line, t.Col, "for GPU memory write gpu_memory", "memory is host memory, and the job does not set gpu_memory")
			}
		}
		r.UtilOnOwn = p.style.ownUtil
	}
	if t := d.given["retry.backoff"]; t != nil && d.given["retry.backoff_after"] == nil && d.Retry.BackoffAfter == 0 {
		p.src.Problem(t.Line, t.Col, "add backoff_after: 3", "retry: backoff has no effect without backoff_after")
	}
}

// readResources reads the scheduler's keys as text.
func (p *proto) readResources(f fields) {
	for _, rk := range resourceKeys {
		if n := f.get(rk.key); n != nil && (rk.key != "retry" || n.Kind != yaml.MappingNode) {
			p.resource(rk.key, rk.list, n)
		}
	}
	retry := f.get("retry")
	if retry == nil || retry.Kind != yaml.MappingNode {
		return
	}
	words := []string{"max", "delay", "backoff_after", "backoff", "on", "memory_growth"}
	p.src.Pairs(retry, "retry", func(k, v *yaml.Node) {
		if !slices.Contains(words, k.Value) {
			p.src.Problem(k.Line, k.Column, source.DidYouMean(k.Value, words, "valid keys: max, delay, backoff_after, backoff, on, memory_growth"), "unknown key %q in retry", k.Value)
			return
		}
		p.resource("retry."+k.Value, k.Value == "on", v)
	})
	if source.Child(retry, "max") == nil {
		p.src.Problem(retry.Line, retry.Column, "add max: 3", "retry without max retries nothing")
	}
}

func (p *proto) resource(key string, list bool, n *yaml.Node) {
	nodes := []*yaml.Node{n}
	if list {
		nodes = p.src.Items(n, key)
		slips.List(p.src, key, n)
	}
	r := written.Resource{Key: key}
	for _, item := range nodes {
		if t, ok := p.text(item, key, expand.InJob); ok {
			r.Texts = append(r.Texts, t)
		}
	}
	if len(r.Texts) == 0 {
		return
	}
	p.Resources = append(p.Resources, r)
}
