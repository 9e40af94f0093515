package jobspec

import (
	"cmp"
	"encoding/json"
	"maps"
	"math"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"gpurun/jobspec/expand"
	"gpurun/jobspec/source"

	"al.essio.dev/pkg/shellescape"
	"gopkg.in/yaml.v3"
)

var (
	sweepKeys      = []string{"program", "method", "parameters", "command", "name", "description", "project", "entity", "run_cap", "metric", "early_terminate"}
	sweepParamKeys = []string{"value", "values", "distribution", "min", "max", "mu", "sigma", "q", "parameters"}
	argMacros      = []string{"${args}", "${args_no_hyphens}", "${args_no_boolean_flags}", "${args_json}"}
	// These are gpurun's names for W&B's distributions. The inverse distributions are "log", too,
	// because if X is uniform on a logarithmic scale, so is 1/X.
	distributions = map[string]string{
		"int_uniform": "int", "uniform": "uniform", "q_uniform": "uniform", "normal": "normal", "q_normal": "normal", "log_normal": "lognormal", "q_log_normal": "lognormal",
		"log_uniform": "log", "q_log_uniform": "log", "log_uniform_values": "log", "q_log_uniform_values": "log", "inv_log_uniform": "log", "inv_log_uniform_values": "log",
	}
	unlikeSweep = map[string]string{
		"early_terminate": "gpurun stops jobs early only if you add prune", "metric": "gpurun reads results from logs and files; add metrics",
		"method bayes": "gpurun draws parameters at random and does not learn from results", "run_cap grid": "gpurun runs the whole grid",
	}
	oldBools  = map[string]string{"yes": "true", "on": "true", "no": "false", "off": "false"} // bools in YAML 1.1, which W&B uses
	envMacro  = regexp.MustCompile(`\$\{envvar:([A-Z_][A-Z0-9_]*)\}`)
	notWord   = regexp.MustCompile(`\W+`)
	jsonToken = regexp.MustCompile(`"(?:[^"\\]|\\.)*"|true|false|null|[,:]`) // JSON tokens except numbers and brackets
)

// isSweep reports whether a file is a W&B sweep.
func isSweep(root *yaml.Node) bool {
	return source.Child(root, "jobs") == nil && source.Child(root, "method") != nil && source.Child(root, "parameters") != nil
}

type nodes map[string]*yaml.Node

type sweepJob struct {
	Name, Run string
	Matrix    nodes `yaml:",omitempty"`
	Sample    struct {
		N      *yaml.Node
		Params nodes
	} `yaml:",omitempty"`
	Params, Args, Env nodes `yaml:",omitempty"`
}

type sweepConverter struct {
	*source.Source
	sweepJob
	grid   bool
	macro  string          // how the command passes parameters
	names  []string        // names of the parameters so far
	known  []string        // names of the parameters found in the first pass, which {name} in text would refer to
	quoted map[string]bool // parameters with values that need quotes in a command
}

// convertSweep returns the job file for a sweep. It reports keys that a job file cannot express.
func convertSweep(s *source.Source, root *yaml.Node) string {
	c := &sweepConverter{Source: s, quoted: map[string]bool{}}
	c.refuse(root, sweepKeys)
	get := func(key string) *yaml.Node { return cmp.Or(source.Child(root, key), scalar("")) }
	method := get("method")
	if !slices.Contains([]string{"grid", "random", "bayes"}, method.Value) {
		s.Problem(method.Line, method.Column, "write grid, random or bayes", "unknown method %q", method.Value)
	}
	times := cmp.Or(source.Child(root, "run_cap"), &yaml.Node{Kind: yaml.ScalarNode, Value: "20", LineComment: "W&B draws until stopped"})
	if n, err := strconv.Atoi(times.Value); err != nil || n < 1 {
		s.Problem(times.Line, times.Column, "use a whole number of at least 1, such as 20", "invalid run_cap %q", times.Value)
	}
	c.grid = method.Value == "grid"
	c.read(root) // collect the names
	c.known, c.names = c.names, nil
	c.read(root)
	if len(c.Sample.Params) > 0 {
		c.Sample.N = times
	}
	name := cmp.Or(get("name").Value, strings.TrimSuffix(filepath.Base(get("program").Value), ".py"))
	c.Name = cmp.Or(strings.Trim(notWord.ReplaceAllString(name, "-"), "-"), "sweep")
	for _, key := range []string{"entity", "project"} {
		if value := get(key).Value; value != "" {
			c.Env["WANDB_"+strings.ToUpper(key)] = scalar(expand.Escape(strings.ReplaceAll(value, "$", "$$"), c.known...))
		}
	}
	file := "# wandb.config contains only what the program passes to wandb.init, so the program must read its arguments.\n"
	for k := range source.Each(root) {
		if why := cmp.Or(unlikeSweep[k.Value], unlikeSweep[k.Value+" "+method.Value]); why != "" {
			file += "# Difference: " + cmp.Or(map[string]string{"method": method.Value}[k.Value], k.Value) + ": " + why + ".\n"
		}
	}
	out, _ := yaml.Marshal(map[string][]sweepJob{"jobs": {c.sweepJob}})
	return file + strings.Replace(string(out), "sample:\n        \"n\": ", "sample:\n        n: ", 1)
}

func scalar(s string) *yaml.Node { return &yaml.Node{Kind: yaml.ScalarNode, Tag: "!!str", Value: s} }

// refuse reports keys that a job file cannot express.
func (c *sweepConverter) refuse(n *yaml.Node, keys []string) {
	for k := range source.Each(n) {
		if !slices.Contains(keys, k.Value) {
			fix := cmp.Or(map[string]string{"probabilities": "list likelier values more than once"}[k.Value], "remove it")
			c.Problem(k.Line, k.Column, source.DidYouMean(k.Value, keys, fix), "%s has no equivalent in a job file", k.Value)
		}
	}
}

// read reads the command and the parameters passed to it.
func (c *sweepConverter) read(root *yaml.Node) {
	c.sweepJob, c.macro = sweepJob{Args: nodes{}, Env: nodes{}, Params: nodes{}, Matrix: nodes{}}, ""
	c.Sample.Params = nodes{}
	at, words := root, []string{"${interpreter}", "${program}", "${args}"}
	if n := source.Child(root, "command"); n != nil {
		at, words = n, c.Texts(n, "command")
	}
	macros := map[string]string{"${env}": "env", "${interpreter}": "python", "${program}": cmp.Or(source.Child(root, "program"), scalar("")).Value}
	for _, word := range words {
		switch {
		case macros[word] != "":
			c.Run += " " + c.quote(macros[word])
		case slices.Contains(argMacros, word) && c.macro == "":
			c.macro = word
			c.arguments(source.Child(root, "parameters"))
		case strings.HasPrefix(word, "${") && strings.HasSuffix(word, "}") && !envMacro.MatchString(word):
			c.Problem(at.Line, at.Column, "add program: train.py, or use one of "+strings.Join(argMacros, ", "), "%s in the command has no equivalent in a job file", word)
		default:
			c.Run += " " + c.quote(word)
		}
	}
	if c.Run = strings.TrimPrefix(c.Run, " "); c.macro == "" {
		c.Problem(at.Line, at.Column, "add ${args}", "the command does not pass the parameters")
	}
}

// quote quotes a word of the command.
func (c *sweepConverter) quote(word string) string {
	word = envMacro.ReplaceAllString(shellescape.Quote(word), `'"$${$1-$1}"'`) // an unset variable becomes its own name
	return expand.Escape(word, c.known...)
}

// arguments adds the words that pass the parameters.
func (c *sweepConverter) arguments(params *yaml.Node) {
	if c.macro == "${args_json}" {
		c.Run += " {" + c.mapping("", params, `"`) + ":q}"
		return
	}
	hyphens := map[bool]string{true: "--"}[c.macro != "${args_no_hyphens}"]
	c.Pairs(params, "parameters", func(k, v *yaml.Node) {
		name := c.value(k, k.Value, v, "")
		if c.Args[k.Value] == nil {
			c.Run += " " + c.quote(hyphens+k.Value+"=") + "{" + name + map[bool]string{true: ":q"}[c.quoted[name]] + "}"
		}
	})
}

// name returns a unique name for a parameter.
func (c *sweepConverter) name(path string) string {
	name := notWord.ReplaceAllString(path, "_")
	for !expand.Free(name) || slices.ContainsFunc(c.names, func(other string) bool { return strings.EqualFold(other, name) }) {
		name = "_" + name
	}
	c.names = append(c.names, name)
	return name
}

// mapping adds a parameter that is a mapping of others, spelled for Python or JSON.
func (c *sweepConverter) mapping(path string, params *yaml.Node, quote string) string {
	var items []string
	c.Pairs(params, "parameters", func(k, v *yaml.Node) {
		name := c.value(k, strings.TrimPrefix(path+"_"+k.Value, "_"), v, quote)
		items = append(items, expand.Escape(c.spelled(k, quote), c.known...)+": {"+name+"}")
	})
	name := c.name(cmp.Or(path, "args"))
	c.Params[name], c.quoted[name] = scalar("{"+strings.Join(items, ", ")+"}"), true
	if quote == "'" {
		c.Params[name].Style = yaml.DoubleQuotedStyle
	}
	return name
}

// value adds a parameter, and returns its name.
func (c *sweepConverter) value(k *yaml.Node, path string, v *yaml.Node, quote string) string {
	c.refuse(v, sweepParamKeys)
	if params := source.Child(v, "parameters"); params != nil {
		return c.mapping(path, params, cmp.Or(quote, "'"))
	}
	name, varying := c.name(path), c.Sample.Params
	if c.grid {
		varying = c.Matrix
	}
	values := source.Child(v, "values")
	if one := source.Child(v, "value"); one != nil {
		values, varying = &yaml.Node{Content: []*yaml.Node{one}}, c.Params
	} else if values == nil && v.Kind == yaml.MappingNode {
		varying[name] = scalar(c.draw(k, v))
		return name
	}
	list := &yaml.Node{Kind: yaml.SequenceNode, Style: yaml.FlowStyle}
	for _, n := range cmp.Or(values, list).Content {
		if word := oldBools[strings.ToLower(n.Value)]; word != "" && n.Style == 0 {
			n = &yaml.Node{Kind: yaml.ScalarNode, Tag: "!!bool", Value: word}
		}
		item, tag := scalar(c.spelled(n, quote)), n.ShortTag()
		c.quoted[name] = c.quoted[name] || shellescape.Quote(item.Value) != item.Value
		if item.Tag = tag; tag != "!!int" && tag != "!!float" && tag != "!!bool" {
			item.Tag, item.Value, item.Style = "!!str", expand.Escape(item.Value, c.known...), yaml.DoubleQuotedStyle
		}
		if c.macro == "${args_no_boolean_flags}" && quote == "" && tag == "!!bool" {
			c.Args[k.Value] = scalar("{" + name + "}") // true adds a bare flag, false adds nothing
		}
		list.Content = append(list.Content, item)
	}
	if varying[name] = list; len(list.Content) == 0 {
		c.Problem(k.Line, k.Column, "write "+k.Value+": {values: [1, 2]}", "parameter %s has no values", k.Value)
	} else if source.Child(v, "value") != nil {
		c.Params[name] = list.Content[0]
	}
	return name
}

// draw returns a parameter's distribution, as sample spells it. In a grid, it returns the
// parameter's range.
func (c *sweepConverter) draw(k, v *yaml.Node) string {
	var err error
	number := func(key string, f float64) float64 {
		if n := source.Child(v, key); n != nil && n.Decode(&f) != nil || !(math.Abs(f) < 1e15) {
			err = source.Faultf("set "+key+" to a number", "%s is missing or not a number", key)
		}
		return f
	}
	tag := func(key string) string { return cmp.Or(source.Child(v, key), scalar("")).ShortTag() }
	dist, step, digits, q := "uniform", "", 15, number("q", 1)
	if tag("min")+tag("max") == "!!int!!int" {
		dist = "int_uniform"
	}
	if n := source.Child(v, "distribution"); n != nil {
		dist = n.Value
	}
	if strings.HasPrefix(dist, "q_") {
		step = ".." + expand.Plain(q, digits)
	}
	word, between := distributions[dist], ".."
	var low, high float64
	if strings.HasSuffix(word, "normal") {
		low, high, between = number("mu", 0), number("sigma", 1), "±"
	} else if low, high = number("min", math.NaN()), number("max", math.NaN()); strings.HasSuffix(dist, "log_uniform") {
		if low, high, digits = math.Exp(low), math.Exp(high), 6; dist[0] == 'i' { // bounds of 1/X
			low, high = 1/high, 1/low
		}
	}
	if step != "" && between == ".." { // W&B rounds to multiples of q
		low, high, digits = math.Ceil(low/q-1e-9)*q, math.Floor(high/q+1e-9)*q, 15
	}
	span := expand.Plain(low, digits) + between + expand.Plain(high, digits) + step
	switch known := slices.Sorted(maps.Keys(distributions)); {
	case word == "":
		err = source.Faultf(source.DidYouMean(dist, known, "use one of "+strings.Join(known, ", ")), "unknown distribution %q", dist)
	case c.grid && word != "int" && dist != "q_uniform":
		err = source.Faultf("write values: […], or method: random", "method: grid needs values")
	case err == nil:
		_, err = expand.ParseDraw(word+" "+span, k.Value)
	}
	if err != nil {
		c.Out.Add(source.Problem{File: c.Path, Line: k.Line, Col: k.Column, Text: "parameter " + k.Value + ": "}.Because(err))
	}
	if c.grid {
		return span
	}
	return word + " " + span
}

// spelled returns a value as W&B's agent, a Python program, passes it as an argument. Text in a list
// or mapping is quoted, with double quotes in JSON.
func (c *sweepConverter) spelled(n *yaml.Node, quote string) string {
	tag := n.ShortTag()
	if quote == "" && n.Kind == yaml.ScalarNode && tag != "!!bool" && tag != "!!null" {
		return n.Value
	}
	var value any
	var out strings.Builder
	encoder := json.NewEncoder(&out)
	encoder.SetEscapeHTML(false)
	if n.Decode(&value) != nil || encoder.Encode(value) != nil {
		c.Problem(n.Line, n.Column, "quote it", "this value has no equivalent in a job file")
	}
	return jsonToken.ReplaceAllStringFunc(strings.TrimSpace(out.String()), func(t string) string {
		switch {
		case t == "," || t == ":":
			return t + " "
		case quote == `"` || strings.Contains(t, "'"):
			return t
		case t == "null":
			return "None"
		case t[0] == '"':
			return "'" + t[1:len(t)-1] + "'"
		}
		return strings.ToUpper(t[:1]) + t[1:]
	})
}
