package jobspec

import (
	"encoding/binary"
	"maps"
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

// pruned is a key of prune; what it does not say is set first.
func pruned[T any](key string, parse func(string) (T, error), at func(*Prune) *T) JobKey {
	return single("prune."+key, parse, func(s *Spec) *T {
		if s.Prune.Min == 0 {
			s.Prune.Keep, s.Prune.Min = 0.7, 5
		}
		return at(&s.Prune)
	})
}

func parseStep(s string) (float64, error) {
	n, err := strconv.ParseFloat(s, 64)
	if err != nil || !(n >= 0 && n < 1e15) {
		return 0, source.Faultf("write the first step at which jobs are compared, such as 10", "invalid step %q", s)
	}
	return n, nil
}

func parseKeep(s string) (float64, error) {
	f, err := strconv.ParseFloat(s, 64)
	if err != nil || !(f > 0 && f < 1) {
		return 0, source.Faultf("use a share between 0 and 1, such as 0.7", "invalid share %q", s)
	}
	return f, nil
}

func parseOthers(s string) (int, error) { return source.ParseCount(s, 1) }

// checkPrune checks prune against the metrics and parameters of its job. A job that has it from the defaults and has
// none of its parameters does without.
func (p *proto) checkPrune(d *draft) {
	r := &d.Prune
	params := slices.Concat(p.Matrix.Always, p.Matrix.Partial)
	for _, name := range params {
		p.file.params[name] = true
	}
	i := slices.IndexFunc(p.Resources, func(r expand.Resource) bool { return r.Key == "prune.among" })
	at := d.given["prune.metric"]
	switch n := p.get("prune"); {
	case n == nil || n.Kind != yaml.MappingNode:
		return
	case at == nil || i < 0 || d.given["prune.after"] == nil:
		p.src.Problem(n.Line, n.Column, "write prune: {metric: val_acc, among: [lr, wd], after: 10}", "prune lacks metric, among or after")
		*r = Prune{}
		return
	}
	known := 0
	for _, t := range p.Resources[i].Texts {
		switch {
		case slices.Contains(params, t.Raw):
			known++
		case p.inherited["prune"]:
			p.file.among[t.Raw] = t // some other job may have it
		default:
			p.src.Problem(t.Line, t.Col, source.DidYouMean(t.Raw, params, "its parameters: "+strings.Join(params, ", ")), "prune: among: the job has no parameter %q", t.Raw)
		}
	}
	if known == 0 {
		*r = Prune{}
		return
	}
	m := slices.IndexFunc(p.Metrics, func(m Metric) bool { return m.Name == r.Metric })
	what := "metrics: {" + r.Metric + ": {log: '" + r.Metric + "=([0-9.]+)', goal: max}}"
	switch {
	case m < 0:
		var names []string
		for _, m := range p.Metrics {
			names = append(names, m.Name)
		}
		p.src.Problem(at.Line, at.Col, source.DidYouMean(r.Metric, names, "write "+what), "prune: metric: the job has no metric %q", r.Metric)
	case p.Metrics[m].Log == nil:
		p.src.Problem(at.Line, at.Col, "write "+what, "prune: metric: %q is not read from the log", r.Metric)
	case p.Metrics[m].Goal == NoGoal:
		p.src.Problem(at.Line, at.Col, "write "+what+" (or min)", "prune: metric: %q has no goal", r.Metric)
	default:
		r.Goal = p.Metrics[m].Goal
	}
}

// checkAmong reports parameters of a prune in the defaults that no job of the file has.
func (f *fileJobs) checkAmong() {
	for _, name := range slices.Sorted(maps.Keys(f.among)) {
		if t := f.among[name]; !f.params[name] {
			known := slices.Sorted(maps.Keys(f.params))
			f.src.Problem(t.Line, t.Col, source.DidYouMean(name, known, "parameters: "+strings.Join(known, ", ")), "prune: among: no job has the parameter %q", name)
		}
	}
}

// PruneGroup returns a hash shared by the jobs that are compared with each other: they differ only in the parameters
// of their prune.
func (b *Batch) PruneGroup(id int) uint64 {
	j := &b.Jobs[id]
	t, r := j.text(), j.Spec.Prune
	d := digest(binary.AppendUvarint(nil, j.Spec.Template)).count(j.File).str(r.Metric)
	for _, x := range t.Run() {
		d = d.str(x.Raw)
	}
	for _, p := range j.values().Params {
		if d = d.str(p.Name); !slices.Contains(r.Among, p.Name) {
			d = d.str(p.Text)
		}
	}
	if t.Config != nil {
		for _, s := range t.Config.Sets {
			d = d.str(strings.Join(s.Path, ".")).str(s.Value.Raw)
		}
	}
	return d.sum64()
}

// NeedsByName reports whether a job needs another one by its name, not by a pattern that matches several.
func (b *Batch) NeedsByName(id, need int32) bool {
	j := &b.Jobs[id]
	return slices.ContainsFunc(j.text().Needs, func(t *expand.Text) bool {
		_, name, ok := strings.Cut(t.Render(j.values()), ":")
		if !ok {
			name = t.Render(j.values())
		}
		return !isGlob(name) && name == b.Jobs[need].Name
	})
}
