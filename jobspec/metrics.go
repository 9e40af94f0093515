package jobspec

import (
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"gopkg.in/yaml.v3"

	"gpurun/jobspec/expand"
	"gpurun/jobspec/source"
)

// A Metric is a number that a job produces. A Goal says whether higher or lower values are better.
type (
	Metric = expand.Metric
	Goal   = expand.Goal
)

// These are the goals.
const (
	NoGoal = expand.NoGoal
	Max    = expand.Max
	Min    = expand.Min
)

// Metrics returns the metrics that the job file declares, without the paths of their files.
func (j *Job) Metrics() []Metric { return j.text().Metrics }

// Entry returns the line of the job in its file, and the job's name as written there. All jobs of
// one matrix share both.
func (j *Job) Entry() (line int, name string) {
	t := j.text()
	return t.Line, t.Name.Raw
}

// metricsOf returns one job's metrics, with the paths of their files.
func metricsOf(t *expand.Job, v *expand.Values) ([]Metric, error) {
	list := slices.Clone(t.Metrics)
	for i := range list {
		if list[i].File == nil {
			continue
		}
		var err error
		if list[i].Path, err = expand.Absolute(v.WorkDir, list[i].File.Render(v)); err != nil {
			return nil, err
		}
		list[i].File = nil
	}
	return list, nil
}

var metricKeys = []string{"log", "step", "file", "key", "at", "goal", "percent"}

// metricFiles are the extensions of files that can contain metrics.
var metricFiles = []string{".json", ".jsonl", ".ndjson", ".yaml", ".yml", ".csv", ".tsv"}

// readMetrics reads metrics: {acc: 'regex', loss: {file: out.json, key: test.loss}}.
func (p *proto) readMetrics() {
	n := p.get("metrics")
	if n == nil {
		return
	}
	if n.Kind != yaml.MappingNode {
		p.src.Problem(n.Line, n.Column, `write metrics: {acc: 'acc = (\S+)'}`, "metrics must be a mapping, not %s", source.Describe(n))
		return
	}
	p.src.Pairs(n, "metrics", func(k, v *yaml.Node) {
		if k.Value == "" || strings.ContainsAny(k.Value, ", \t\n=:") || k.Value == "error_type" || k.Value == "step" {
			p.src.Problem(k.Line, k.Column, "use a word such as test_acc", "invalid metric name %q", k.Value)
			return
		}
		m := Metric{Name: k.Value}
		ok := true
		switch {
		case source.IsNull(v):
			return // removes a default
		case v.Kind == yaml.ScalarNode:
			m.Log, ok = p.pattern(m.Name, v)
		case v.Kind == yaml.MappingNode:
			ok = p.metric(&m, v)
		default:
			ok = false
			p.src.Problem(v.Line, v.Column, `write acc: 'acc = (\S+)', or acc: {file: out.json, key: acc}`, "metrics: %q must be a regular expression or a mapping, not %s", k.Value, source.Describe(v))
		}
		if ok {
			m.SetSum()
			p.Metrics = append(p.Metrics, m)
		}
	})
}

// metric reads one metric given as a mapping.
func (p *proto) metric(m *Metric, n *yaml.Node) bool {
	if hint := source.QuoteHint(n); hint != "" && len(n.Content) <= 2 && !slices.Contains(metricKeys, n.Content[0].Value) {
		p.src.Problem(n.Line, n.Column, hint, "metrics: %q must be a regular expression or a mapping with log or file", m.Name)
		return false
	}
	what, ok := "metrics: "+m.Name, true
	refuse := func(at *yaml.Node, hint, text string, args ...any) {
		ok = false
		p.src.Problem(at.Line, at.Column, hint, what+": "+text, args...)
	}
	ok = p.src.Pairs(n, what, func(k, v *yaml.Node) {
		text, _, scalar := p.src.Scalar(v, what+": "+k.Value)
		if !scalar || source.IsNull(v) {
			ok = ok && scalar
			return
		}
		var err error
		switch k.Value {
		case "log":
			m.Log, scalar = p.pattern(m.Name, v)
			ok = ok && scalar
		case "step":
			m.Step, scalar = p.pattern(m.Name+": step", v)
			ok = ok && scalar
		case "file":
			m.File, scalar = p.compile(text, v.Line, v.Column, what+": file", expand.InMetric)
			ok = ok && scalar
			if ext := strings.ToLower(filepath.Ext(text)); ext != "" && !strings.ContainsAny(ext, "{}/") && !slices.Contains(metricFiles, ext) {
				refuse(v, "print the number and read it with log: 'acc = (\\S+)'; files may be .json, .jsonl, .yaml, .csv, .tsv", "cannot read a number from %q", text)
			}
		case "key":
			m.Key = text
		case "at":
			goal, column, _ := strings.Cut(text, " ")
			if m.At = strings.TrimSpace(column); m.At == "" || goal != string(Max) && goal != string(Min) {
				refuse(v, `write "at: max val_acc" to use the row with the highest val_acc, or "at: min val_acc" for the lowest`, "invalid value %q", text)
			}
			m.AtMax = goal == string(Max)
		case "goal":
			m.Goal, err = source.OneOf(Max, Min)(text)
		case "percent":
			m.Percent, err = source.ParseBool(text)
		default:
			refuse(k, source.DidYouMean(k.Value, metricKeys, "valid keys: "+strings.Join(metricKeys, ", ")), "unknown key %q", k.Value)
		}
		if err != nil {
			ok = false
			p.src.Out.Add(Problem{File: p.src.Path, Line: v.Line, Col: v.Column, Text: what + ": " + k.Value + ": "}.Because(err))
		}
	}) && ok
	switch {
	case m.Log != nil && m.File != nil:
		refuse(n, "keep only one", "both log and file are set")
	case m.Log == nil && m.Step != nil:
		refuse(n, "add log: '"+m.Name+"=(\\S+)'", "step has no effect without log")
	case m.File == nil && m.Key != "":
		refuse(n, "add file: out.json", "key has no effect without file")
	case m.File == nil && m.At != "":
		refuse(n, "add file: log.csv", "at has no effect without file")
	}
	if m.File != nil && m.Key == "" {
		m.Key = m.Name
	}
	return ok
}

// pattern reads a metric's regular expression.
func (p *proto) pattern(what string, n *yaml.Node) (re *regexp.Regexp, ok bool) {
	text, _, ok := p.src.Scalar(n, "metrics: "+what)
	if !ok {
		return nil, false
	}
	problem := func(hint, format string, args ...any) {
		ok = false
		p.src.Problem(n.Line, n.Column, hint, "metrics: "+what+": "+format, args...)
	}
	re, err := regexp.Compile(text)
	switch {
	case err != nil && regexp.MustCompile(`\(\?<?[=!]`).MatchString(text):
		problem("lookaround is not supported; put the number in a group: 'acc = (\\S+)'", "invalid regular expression %q", source.Clip(text))
	case err != nil:
		problem("write it in single quotes: 'acc = (\\S+)'", "invalid regular expression %q: %s", source.Clip(text), strings.TrimPrefix(err.Error(), "error parsing regexp: "))
	case slices.Contains(metricFiles, strings.ToLower(filepath.Ext(text))) && re.NumSubexp() == 0:
		problem("write "+what+": {file: "+text+"}", "%q is not a regular expression with a group", source.Clip(text))
	case re.NumSubexp() == 0:
		problem("put the number in a group: '"+source.Clip(grouped(text))+"'", "%q has no group for the number", source.Clip(text))
	case re.NumSubexp() > 1:
		problem("write (?:…) for the other groups", "%q has %d groups, so the number is ambiguous", source.Clip(text), re.NumSubexp())
	}
	for _, param := range slices.Concat(p.scope.Params, p.scope.Partial) {
		if spelt := "{" + param + "}"; ok && strings.Contains(text, spelt) {
			l, c := p.src.Find(n.Line, n.Column, spelt)
			p.src.Warning(l, c, `match any value: \S+`, "metrics: %s: %s is not replaced in a regular expression", what, spelt)
		}
	}
	return re, ok
}

// digits matches the part of a regular expression that matches a number.
var digits = regexp.MustCompile(`(?:-\?)?(?:(?:\[[^\]]*\d[^\]]*\]|\\d)[+*?]?(?:\\\.)?)+`)

// anything matches the last part of a regular expression if that matches any text.
var anything = regexp.MustCompile(`(?:\\S|\.)[+*]\??\$?$`)

// grouped adds a group to a regular expression: around the last part that matches a number or, if
// there is none, at the end.
func grouped(text string) string {
	if found := digits.FindAllStringIndex(text, -1); found != nil {
		at := found[len(found)-1]
		return text[:at[0]] + "(" + text[at[0]:at[1]] + ")" + text[at[1]:]
	}
	if at := anything.FindStringIndex(text); at != nil {
		return text[:at[0]] + "(\\S+)" + text[at[1]:]
	}
	return strings.TrimRight(text, " ") + " (\\S+)"
}

// Factors returns the values that distinguish a job's results from those of other jobs: its
// parameters, except those derived from others. For a job without parameters, it returns the values
// written in its other keys: for an experiment, the config, algorithm, seed and arguments;
// otherwise, the base and changes of the config, and the arguments.
func (j *Job) Factors() []Param {
	v := j.values()
	if own := v.Own(); len(own) > 0 {
		return own
	}
	t := j.text()
	var list []Param
	add := func(name string, value *expand.Text) {
		name = strings.TrimLeft(name, "-")
		known := slices.ContainsFunc(list, func(p Param) bool { return p.Name == name })
		if value.Constant() && !known {
			list = append(list, Param{Name: name, Text: value.Raw})
		}
	}
	args := t.Args
	if t.Config != nil {
		add("config", t.Config.Base)
	}
	if len(args) >= 2 && args[0].Key == "cfp" && args[1].Key == "algo" {
		add("config", args[0].Value) // skipped for a copy, because its base was added above
		add("algorithm", args[1].Value)
		args = args[2:]
	}
	for _, a := range args {
		add(a.Key, a.Value)
	}
	if t.Config != nil {
		for _, s := range t.Config.Sets {
			add(strings.Join(s.Path, "."), s.Value)
		}
	}
	return list
}
