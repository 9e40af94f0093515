package jobspec

import (
	"cmp"
	"errors"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"gopkg.in/yaml.v3"

	"gpurun/gpu"
	"gpurun/jobspec/expand"
	"gpurun/jobspec/lint"
	"gpurun/jobspec/settings"
	"gpurun/jobspec/source"
)

// Changeable lists the job keys that a user can change during a run.
var Changeable = []string{"gpus", "gpu_memory", "max_util", "timeout", "retry", "priority"}

// Change returns a copy of s with new values for some keys, written as in a job file.
func (s *Spec) Change(values map[string]string) (*Spec, error) {
	n := *s
	for _, rk := range JobKeys {
		if text, ok := values[rk.Name]; ok {
			if err := rk.read(&n, []string{text}); err != nil {
				return nil, Problem{Text: rk.Name + ": "}.Because(err)
			}
		}
	}
	_, memory := values["gpu_memory"]
	_, util := values["max_util"]
	switch {
	case (n.Request.Max == 0) != (s.Request.Max == 0):
		return nil, errors.New("gpus: cannot add GPUs to a CPU-only job, or remove all GPUs from a job: change the job file, then run gpurun reload")
	case n.Request.Max == 0 && (memory || util):
		return nil, errors.New("gpu_memory and max_util apply only to jobs with GPUs")
	case n.Request.Max == n.Request.Min && n.Resize.Up > 0:
		return nil, errors.New("gpus: a job with resize needs a range, such as 1-4")
	case n.overTime() != nil:
		return nil, Problem{}.Because(n.overTime())
	case memory:
		n.DefaultMemory, n.LeastMemory, n.Request.Part = false, false, false
	}
	return &n, nil
}

func parseModels(v []string) (gpu.Names, error) {
	if slices.Contains(v, "") {
		return gpu.NamesOf(nil), source.Faultf("try a100", "an empty name matches every GPU")
	}
	return gpu.NamesOf(v), nil
}

func parseIDs(v []string) (gpu.Names, error) {
	var all []string
	for _, s := range v {
		ids, err := source.ParseGPUIDs(s)
		if err != nil {
			return gpu.NamesOf(nil), err
		}
		all = append(all, ids...)
	}
	return gpu.NamesOf(all), nil
}

func parseCount(s string) (int, error) { return source.ParseCount(s, 0) }

func parsePriority(s string) (int, error) {
	n, err := source.ParseInteger(s, 1e9, "jobs with higher numbers run first")
	return int(n), err
}

func parseRetries(s string) (int, error) {
	if s == "forever" {
		return -1, nil
	}
	return source.ParseCount(s, 0)
}

func parseKinds(v []string) ([]string, error) {
	if len(v) == 1 && v[0] == "all" {
		return nil, nil
	}
	kinds := []string{"oom", "timeout", "stalled", "signal", "exit", "lost"}
	for _, kind := range v {
		if n, err := strconv.ParseUint(kind, 10, 8); !slices.Contains(kinds, kind) && (err != nil || strconv.FormatUint(n, 10) != kind || n == 0) {
			return nil, source.Faultf(source.DidYouMean(kind, kinds, "valid values: "+strings.Join(kinds, ", ")+", and exit codes from 1 to 255"), "unknown value %q", kind)
		}
	}
	return v, nil
}

func parseOnStall(s string) (kill bool, err error) {
	word, err := source.ParseWord(s, "kill", "warn")
	return word == "kill", err
}

func parseFactor(s string) (float64, error) {
	f, err := strconv.ParseFloat(s, 64)
	if err != nil || !(f >= 1 && f <= 100) {
		return 0, source.Faultf("use a factor from 1 to 100, such as 1.5", "invalid factor %q", s)
	}
	return f, nil
}

// A draft is a Spec under construction, with the text of each key that was given.
type draft struct {
	Spec
	given map[string]*expand.Text
}

// build returns the Spec of one expansion, with its parameters filled in.
func (p *proto) build(v *expand.Values) *Spec {
	d := &draft{p.style.spec, map[string]*expand.Text{}}
	d.text, d.Notify = p.Job, p.notify
	d.LogNamed = p.Log != nil || p.Stdout != nil || p.Stderr != nil
	d.HasOutputs, d.HasInputs = len(p.Outputs) > 0, len(p.Inputs) > 0
	for _, rk := range JobKeys {
		i := slices.IndexFunc(p.Resources, func(r expand.Resource) bool { return r.Key == rk.Name })
		if i < 0 {
			continue
		}
		r := &p.Resources[i]
		vals := make([]string, len(r.Texts))
		for n, t := range r.Texts {
			vals[n] = t.Render(v)
		}
		at := r.Texts[0]
		d.given[rk.Name] = at
		if err := rk.read(&d.Spec, vals); err != nil {
			p.src.Out.Add(Problem{File: p.src.Path, Line: at.Line, Col: at.Col, Text: rk.Name + ": "}.Because(err))
		}
	}
	d.CPUsGiven = d.given["cpus"] != nil
	p.finish(d)
	d.Template = p.templateOf(d.Request)
	return &d.Spec
}

// finish fills in what the job does not set, using the batch's settings, and checks the result.
func (p *proto) finish(d *draft) {
	s := p.file.settings
	if d.Grace = s.Grace; d.given["timeout.grace"] == nil {
		d.AtTimeout.Grace = s.Grace
	}
	d.Allow = slices.Concat(d.Allow, s.Allow)
	r := &d.Request
	if r.Max == 0 {
		for _, key := range []string{"gpu_memory", "gpu_model", "gpu_ids", "affinity", "slots"} {
			if t := d.given[key]; t != nil && !p.inherited[key] {
				p.src.Problem(t.Line, t.Col, "remove it, or set gpus", "%s has no effect with gpus: 0", key)
			}
		}
		d.Request = gpu.Request{}
		if d.given["cpus"] == nil {
			d.CPUs = 1
		}
	} else {
		p.slots(d)
		if d.given["max_util"] == nil {
			r.MaxUtil = p.util(r.Share)
		}
		if d.given["gpu_memory"] == nil {
			_, given := p.file.given["min_memory"]
			r.Memory, d.DefaultMemory = s.MinMemory, !given
			d.LeastMemory = given
			if r.Part = r.Slots > 0 && !given; r.Part {
				r.Memory, d.DefaultMemory = 0, false
			}
			whole := s.Engine != "local" || d.given["share"] != nil && !r.Share
			if t := d.given["memory"]; t != nil && !whole {
				p.src.Warning(t.Line, t.Col, "for GPU memory, write gpu_memory", "memory is host memory, and the job sets no gpu_memory")
			}
		}
		r.UtilOnOwn = p.style.ownUtil
	}
	p.checkResize(d)
	if t := d.given["on_stall"]; t != nil && d.Stall.After+d.Stall.Output == 0 && !p.inherited["on_stall"] {
		p.src.Problem(t.Line, t.Col, "add stall: 30m", "on_stall has no effect without stall")
	}
	p.checkPool(d)
	p.checkPrune(d)
	p.onCluster(d)
	if t := d.given["retry.backoff"]; t != nil && d.given["retry.backoff_after"] == nil && d.Retry.BackoffAfter == 0 {
		p.src.Problem(t.Line, t.Col, "add backoff_after: 3", "retry: backoff has no effect without backoff_after")
	}
}

// onCluster fills in the cluster keys that the job does not set, if a cluster runs the job.
func (p *proto) onCluster(d *draft) {
	s, own := p.file.settings, d.Cluster
	if d.Cluster = nil; s.Engine == "local" {
		return
	}
	settings.CheckCluster(s.Engine, own, func(key, text, hint string) {
		at := d.given["cluster."+key]
		p.src.Problem(at.Line, at.Col, hint, "%s", text)
	})
	d.Cluster = map[string]string{}
	maps.Copy(d.Cluster, s.Cluster)
	maps.Copy(d.Cluster, own)
	d.ClusterTime, _ = source.ParseDuration(d.Cluster["time"]) // already checked
	if err := d.overTime(); err != nil {
		at := cmp.Or(d.given["cluster.time"], d.given["timeout"], d.given["timeout.after"])
		p.src.Out.Add(Problem{File: p.src.Path, Line: at.Line, Col: at.Col}.Because(err))
	}
}

// overTime returns an error if the cluster would end the job before gpurun does.
func (s *Spec) overTime() error {
	least := s.Timeout + s.AtTimeout.Grace
	if s.Timeout == 0 || s.ClusterTime == 0 || s.ClusterTime >= least {
		return nil
	}
	least = (least + time.Minute - 1).Truncate(time.Minute)
	return source.Faultf("set cluster: {time: "+source.FormatDuration(least)+"} or longer, or shorten timeout",
		"cluster.time is %s, less than timeout (%s) plus grace (%s)", source.FormatDuration(s.ClusterTime), source.FormatDuration(s.Timeout), source.FormatDuration(s.AtTimeout.Grace))
}

// slots decides whether a job shares its GPUs, and how many jobs may share each of them. Setting
// slots implies sharing, unless share: false is set in the same place (job or settings).
func (p *proto) slots(d *draft) {
	r := &d.Request
	share, slots := d.given["share"], d.given["slots"]
	_, said := p.file.given["share"]
	if slots == nil {
		r.Slots = p.file.settings.Slots
	}
	if share == nil {
		r.Share = p.shares() || r.Slots > 0 && (slots != nil || !said)
	}
	if !r.Share {
		if r.Slots > 0 && slots != nil && !p.inherited["slots"] {
			p.src.Problem(slots.Line, slots.Col, "remove one of them", "slots: %d has no effect with share: false", r.Slots)
		}
		r.Slots = 0
	}
}

// readResources reads the scheduler's keys as text.
func (p *proto) readResources() {
	for _, rk := range JobKeys {
		n := p.get(rk.Name)
		switch {
		case n == nil || rk.read == nil:
		case rk.Name == "pool" && n.Kind == yaml.MappingNode:
			p.poolOf(n)
		case n.Kind == yaml.MappingNode && rk.mapping:
			p.readMapping(rk.Name, n)
		default:
			p.resource(rk.Name, rk.list, n)
		}
	}
}

// readMapping reads a key given as a mapping: cluster, retry, resize, stall, timeout, prune.
func (p *proto) readMapping(key string, n *yaml.Node) {
	var valid []string
	for _, rk := range JobKeys {
		if word, ok := strings.CutPrefix(rk.Name, key+"."); ok {
			valid = append(valid, word)
		}
	}
	p.src.Pairs(n, key, func(k, v *yaml.Node) {
		part := keyNamed(key + "." + k.Value)
		if part == nil {
			p.src.Problem(k.Line, k.Column, source.DidYouMean(k.Value, valid, "valid keys: "+strings.Join(valid, ", ")), "unknown key %q in %s", k.Value, key)
			return
		}
		p.resource(part.Name, part.list, v)
	})
	switch {
	case key == "retry" && source.Child(n, "max") == nil:
		p.src.Problem(n.Line, n.Column, "add max: 3", "retry has no max")
	case key == "timeout" && source.Child(n, "after") == nil:
		p.src.Problem(n.Line, n.Column, "add after: 6h", "timeout has no after")
	case key == "stall" && len(n.Content) == 0:
		p.src.Problem(n.Line, n.Column, "write stall: 30m, or stall: {output: 30m}", "stall is empty")
	case key == "resize" && len(n.Content) == 0:
		p.src.Problem(n.Line, n.Column, "write resize: true", "resize is empty")
	}
}

func (p *proto) resource(key string, list bool, n *yaml.Node) {
	nodes := []*yaml.Node{n}
	if list {
		nodes = p.src.Items(n, key)
		lint.ListSlip(p.src, key, n)
	}
	r := expand.Resource{Key: key}
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
