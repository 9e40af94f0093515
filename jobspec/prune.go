package jobspec

import (
	"cmp"
	"fmt"
	"regexp"
	"regexp/syntax"
	"slices"
	"strconv"
	"strings"

	"gopkg.in/yaml.v3"

	"gpurun/jobspec/expand"
	"gpurun/jobspec/lint"
	"gpurun/jobspec/source"
)

// Prune defines when a job is not worth running to its end. It is off if Metric is "".
type Prune struct {
	Metric string
	Goal   Goal     // whether a higher or lower metric is better
	Among  []string // the parameters in which compared jobs differ
	After  float64  // the first step at which jobs are compared
	Keep   float64  // the share of jobs, best first, that continue
	Min    int      // how many other jobs must have reached the same step
}

// between returns a parser for numbers that are at least from and less than to.
func between(from, to float64, hint, what string) func(string) (float64, error) {
	return func(s string) (float64, error) {
		n, err := strconv.ParseFloat(s, 64)
		if err != nil || !(n >= from && n < to) {
			return 0, source.Faultf(hint, "invalid %s %q", what, s)
		}
		return n, nil
	}
}

// checkPrune checks prune against the job's metrics and parameters. If prune comes from defaults
// and the job has none of its parameters, the job is not pruned.
func (p *proto) checkPrune(d *draft) {
	r, n := &d.Prune, p.get("prune")
	params := slices.Concat(p.Matrix.Always, p.Matrix.Partial)
	p.file.params = append(p.file.params, params...)
	at, among := d.given["prune.metric"], slices.IndexFunc(p.Resources, func(r expand.Resource) bool { return r.Key == "prune.among" })
	switch {
	case n == nil || n.Kind != yaml.MappingNode:
		return
	case at == nil || among < 0 || d.given["prune.after"] == nil:
		p.src.Problem(n.Line, n.Column, "write prune: {metric: val_acc, among: [lr, wd], after: 10}", "prune needs metric, among and after")
		return
	case !p.inherited["prune"]:
		p.file.checkAmong("the job has no parameter", p.Resources[among].Texts, params)
	default:
		p.file.among = p.Resources[among].Texts // another job may have them
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
	hint := "write metrics: {" + r.Metric + ": {log: '" + r.Metric + "=(\\S+)', goal: max}}"
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

// checkAmong reports the parameters in among that are not in params.
func (f *fileJobs) checkAmong(what string, among []*expand.Text, params []string) {
	for _, t := range among {
		if !slices.Contains(params, t.Raw) {
			f.src.Problem(t.Line, t.Col, source.DidYouMean(t.Raw, params, "parameters: "+strings.Join(params, ", ")), "prune: among: %s %q", what, t.Raw)
		}
	}
}

// lintPrune warns about jobs that prune never compares, because too few differ only in the among
// parameters, and about metrics that prune would misread.
func (l *loader) lintPrune() {
	size, groups := map[uint64]int{}, map[*expand.Job][]uint64{}
	var first []*Job
	for id := range l.batch.Jobs {
		if j := &l.batch.Jobs[id]; j.Spec.Prune.Metric != "" {
			if groups[j.text()] == nil {
				first = append(first, j)
			}
			g := l.batch.PruneGroup(id)
			size[g], groups[j.text()] = size[g]+1, append(groups[j.text()], g)
		}
	}
	for _, j := range first {
		most := 0
		for _, g := range groups[j.text()] {
			most = max(most, size[g])
		}
		t, r, m := j.text(), j.Spec.Prune, j.PruneMetric()
		warn := func(hint, format string, args ...any) {
			l.lints.Find(l.files[j.File].src, t, Problem{Lint: lint.Prune, Line: t.Line, Col: t.Col, Hint: hint, Text: fmt.Sprintf(format, args...)}, true)
		}
		if most <= r.Min {
			warn(fmt.Sprintf("set min: %d, or add parameters to the among list", max(1, most-1)), "prune never compares jobs: min requires %d other jobs, but at most %d differ only in %s", r.Min, most-1, strings.Join(r.Among, ", "))
		}
		if m != nil && m.Log != nil && group(m.Log).FindString(small) == small[:3] {
			warn(`capture the whole number with (\S+)`, "metrics: %s: %q reads %s as %s, so prune would compare the wrong numbers", m.Name, m.Log, small, small[:3])
		}
	}
}

// small is an example of how programs print small numbers.
const small = "9.5e-05"

// group returns the group that captures a metric's number, as a separate expression.
func group(re *regexp.Regexp) *regexp.Regexp {
	tree, err := syntax.Parse(re.String(), syntax.Perl)
	for parts := []*syntax.Regexp{tree}; err == nil && len(parts) > 0; parts = append(parts[1:], parts[0].Sub...) {
		if parts[0].Op == syntax.OpCapture {
			return regexp.MustCompile("^(?:" + parts[0].Sub[0].String() + ")")
		}
	}
	return re
}

// PruneMetric returns the metric that prune compares, or nil if the job has none.
func (j *Job) PruneMetric() *Metric {
	list := j.Metrics()
	i := slices.IndexFunc(list, func(m Metric) bool { return m.Name == j.Spec.Prune.Metric })
	if i < 0 {
		return nil
	}
	return &list[i]
}

// PruneGroup returns a hash shared by the jobs that prune compares with each other: they differ
// only in the parameters in among.
func (b *Batch) PruneGroup(id int) uint64 {
	j := &b.Jobs[id]
	return j.written(func(name, value string) (string, bool) {
		return value, !slices.Contains(j.Spec.Prune.Among, name)
	}).count(j.File).str(j.Spec.Prune.Metric).sum64()
}

// NeedsByName reports whether a job names another job in its needs, rather than matching it with a
// pattern.
func (b *Batch) NeedsByName(id, need int32) bool {
	j := &b.Jobs[id]
	return slices.ContainsFunc(j.text().Needs, func(t *expand.Text) bool {
		name := t.Render(j.values())
		return name[strings.IndexByte(name, ':')+1:] == b.Jobs[need].Name
	})
}
