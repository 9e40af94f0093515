package jobspec

import (
	"cmp"
	"slices"
	"strconv"
	"strings"

	"gopkg.in/yaml.v3"

	"gpurun/jobspec/expand"
	"gpurun/jobspec/source"
)

// Prune tells when a job is not worth running to its end. Metric is "" for never.
type Prune struct {
	Metric string
	Goal   Goal     // of the metric
	Among  []string // the parameters in which jobs differ that are compared
	After  float64  // the first step at which they are
	Keep   float64  // the share of the best that continue
	Min    int      // how many others must have reached a job's step
}

// between parses a number that is at least from and less than to.
func between(from, to float64, hint, what string) func(string) (float64, error) {
	return func(s string) (float64, error) {
		n, err := strconv.ParseFloat(s, 64)
		if err != nil || !(n >= from && n < to) {
			return 0, source.Faultf(hint, "invalid %s %q", what, s)
		}
		return n, nil
	}
}

// checkPrune checks prune against the metrics and parameters of its job. A job that has it from the defaults and has
// none of its parameters does without.
func (p *proto) checkPrune(d *draft) {
	r, n := &d.Prune, p.get("prune")
	params := slices.Concat(p.Matrix.Always, p.Matrix.Partial)
	p.file.params = append(p.file.params, params...)
	at, among := d.given["prune.metric"], slices.IndexFunc(p.Resources, func(r expand.Resource) bool { return r.Key == "prune.among" })
	switch {
	case n == nil || n.Kind != yaml.MappingNode:
		return
	case at == nil || among < 0 || d.given["prune.after"] == nil:
		p.src.Problem(n.Line, n.Column, "write prune: {metric: val_acc, among: [lr, wd], after: 10}", "prune lacks metric, among or after")
		return
	case !p.inherited["prune"]:
		p.file.checkAmong("the job has no parameter", p.Resources[among].Texts, params)
	default:
		p.file.among = p.Resources[among].Texts // some other job may have them
		if !slices.ContainsFunc(r.Among, func(name string) bool { return slices.Contains(params, name) }) {
			*r = Prune{}
			return
		}
	}
	names := make([]string, len(p.Metrics))
	for i, m := range p.Metrics {
		names[i] = m.Name
	}
	r.Keep, r.Min = cmp.Or(r.Keep, 0.7), cmp.Or(r.Min, 5)
	hint := "write metrics: {" + r.Metric + ": {log: '" + r.Metric + "=([0-9.]+)', goal: max}}"
	switch m := slices.Index(names, r.Metric); {
	case m < 0:
		p.src.Problem(at.Line, at.Col, source.DidYouMean(r.Metric, names, hint), "prune: metric: the job has no metric %q", r.Metric)
	case p.Metrics[m].File != nil:
		p.src.Problem(at.Line, at.Col, hint, "prune: metric: %q is read from a file, which has no steps", r.Metric)
	case p.Metrics[m].Goal == NoGoal:
		p.src.Problem(at.Line, at.Col, hint+" (or min)", "prune: metric: %q has no goal", r.Metric)
	default:
		r.Goal = p.Metrics[m].Goal
	}
}

// checkAmong reports parameters that do not exist.
func (f *fileJobs) checkAmong(what string, among []*expand.Text, params []string) {
	for _, t := range among {
		if !slices.Contains(params, t.Raw) {
			f.src.Problem(t.Line, t.Col, source.DidYouMean(t.Raw, params, "parameters: "+strings.Join(params, ", ")), "prune: among: %s %q", what, t.Raw)
		}
	}
}

// PruneMetric returns the metric that prune goes by, or nil.
func (j *Job) PruneMetric() *Metric {
	list := j.Metrics()
	i := slices.IndexFunc(list, func(m Metric) bool { return m.Name == j.Spec.Prune.Metric })
	if i < 0 {
		return nil
	}
	return &list[i]
}

// PruneGroup returns a hash shared by the jobs that are compared with each other: they differ only in the parameters
// of their prune.
func (b *Batch) PruneGroup(id int) uint64 {
	j := &b.Jobs[id]
	return j.written(func(name, value string) (string, bool) {
		return value, !slices.Contains(j.Spec.Prune.Among, name)
	}).count(j.File).str(j.Spec.Prune.Metric).sum64()
}

// NeedsByName reports whether a job needs another one by its name, not by a pattern that matches several.
func (b *Batch) NeedsByName(id, need int32) bool {
	j := &b.Jobs[id]
	return slices.ContainsFunc(j.text().Needs, func(t *expand.Text) bool {
		name := t.Render(j.values())
		return name[strings.IndexByte(name, ':')+1:] == b.Jobs[need].Name
	})
}
