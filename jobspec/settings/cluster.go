package settings

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"unicode"

	"gopkg.in/yaml.v3"

	"gpurun/jobspec/source"
)

// Engines are the valid values of the engine setting.
var Engines = []string{"local", "slurm", "sge"}

// clusterKeys are the keys of the cluster setting, with functions that check their values.
var clusterKeys = map[string]func(string) error{
	"partition": plain, "account": plain, "qos": plain, "constraint": plain, "gpurun": absolute, "extra": extras,
	"queue": plain, "project": plain, "pe": plain, "gpu_resource": plain, "memory_resource": plain, "exclude": plain,
	"poll": lasts, "time": lasts,
	"max_submitted": atLeastOne, "max_gpus_total": atLeastOne, "name_prefix": prefix,
}

// CheckClusterKey checks the value of a cluster key that a job sets.
func CheckClusterKey(key, text string) error { return clusterKeys[key](text) }

// only lists keys that only one engine supports, with the alternative for other engines.
var only = []struct{ key, engine, hint string }{
	{"partition", "slurm", "Grid Engine has queues: set queue"},
	{"qos", "slurm", "remove it, or set project if a project has the same effect"},
	{"constraint", "slurm", "request a resource with extra: [\"-l NAME=VALUE\"]"},
	{"queue", "sge", "Slurm has partitions: set partition"},
	{"project", "sge", "Slurm has accounts: set account"},
	{"pe", "sge", "remove it: Slurm uses the job's cpus directly"},
	{"gpu_resource", "sge", "remove it, or name the type in models: {a100: \"gpu:a100\"}"},
	{"memory_resource", "sge", "remove it: Slurm uses the job's memory key directly"},
}

// modelKey is the prefix of the keys models.NAME, which map a GPU model to the cluster's name for
// it.
const modelKey = "models."

// These are the reasons to refuse a submission argument.
const (
	ours     = "gpurun sets %s itself"
	neverSet = "cannot set %s for a job"
)

// ownArguments lists submission arguments that job files cannot set, with a fix for each. gpurun
// sets some of them itself; the others contradict how it runs jobs.
var ownArguments = []struct {
	engine, names, text, fix string
}{
	{"slurm", "-a --array -o --output -e --error --requeue --no-requeue -J --job-name --export --export-file", ours, "remove it"},
	{"slurm", "--wrap -D --chdir --parsable --comment", ours, "remove it"},
	{"slurm", "-t --time", ours, "set time"},
	{"slurm", "-x --exclude", ours, "set exclude"},
	{"slurm", "-N --nodes -n --ntasks", neverSet, "remove it: a job is one task on one node"},
	{"slurm", "-d --dependency", neverSet, "use needs"},
	{"slurm", "-H --hold", neverSet, "use gpurun pause"},
	{"slurm", "-W --wait", neverSet, "use gpurun wait"},
	{"sge", "-t -o -e -i -j -r -N -notify -terse -wd -cwd -S -C -b -verify -help -@", ours, "remove it"},
	{"sge", "-hold_jid -hold_jid_ad", neverSet, "use needs"},
	{"sge", "-h", neverSet, "use gpurun pause"},
	{"sge", "-sync", neverSet, "use gpurun wait"},
}

func lasts(text string) error { _, err := source.ParseDuration(text); return err }

func atLeastOne(text string) error { _, err := source.ParseCount(text, 1); return err }

// prefix checks name_prefix by Grid Engine's rules, which are stricter than Slurm's.
func prefix(text string) error {
	odd := func(r rune) bool {
		return r > unicode.MaxASCII || !unicode.IsLetter(r) && !unicode.IsDigit(r) && !strings.ContainsRune("_.-", r)
	}
	if len(text) > 30 || strings.ContainsFunc(text, odd) || !unicode.IsLetter([]rune(text)[0]) {
		return source.Faultf("use up to 30 letters, digits and _ . -, starting with a letter", "invalid name prefix %q", text)
	}
	return nil
}

func plain(text string) error {
	if strings.ContainsAny(text, " \t\n") || strings.HasPrefix(text, "-") {
		return source.Faultf("", "%q is not a name", text)
	}
	return nil
}

func absolute(text string) error {
	if !strings.HasPrefix(text, "/") {
		return source.Faultf("write the full path, as seen from the nodes", "%q is not an absolute path", text)
	}
	return nil
}

// extras checks arguments for the submission command, one per line.
func extras(text string) error {
	for line := range strings.Lines(text) {
		if !strings.HasPrefix(line, "-") {
			return source.Faultf("write one argument per entry: [\"--mail-type=END\"], or for Grid Engine [\"-m e\"]", "%q is not an argument", strings.TrimSpace(line))
		}
	}
	return nil
}

// CheckCluster refuses keys that the engine does not support, and invalid arguments in extra, such
// as those that gpurun sets itself.
func CheckCluster(engine string, options map[string]string, refuse func(key, text, hint string)) {
	if engine == "local" {
		return
	}
	for _, o := range only {
		if options[o.key] != "" && engine != o.engine {
			refuse(o.key, fmt.Sprintf("cluster.%s has no equivalent on %s", o.key, engine), o.hint)
		}
	}
	for line := range strings.Lines(options["extra"]) {
		argument, _, _ := strings.Cut(strings.TrimSpace(line), "=")
		name, _, spaced := strings.Cut(argument, " ")
		for _, own := range ownArguments {
			if own.engine == engine && slices.Contains(strings.Fields(own.names), name) {
				refuse("extra", fmt.Sprintf("cluster.extra: "+own.text, name), own.fix)
				spaced = false
			}
		}
		if spaced && engine == "slurm" {
			refuse("extra", fmt.Sprintf("cluster.extra: %q has a space", strings.TrimSpace(line)), "write --name=value")
		}
	}
}

// clusterText returns the cluster setting as one string of key=value pairs, each followed by
// clusterSeparator.
func clusterText(s *source.Source, n *yaml.Node) string {
	var parts []string
	scalar := func(key string, v *yaml.Node) {
		if text, tag, ok := s.Scalar(v, "cluster: "+key); ok && tag != "!!null" {
			parts = append(parts, key+"="+text)
		}
	}
	s.Pairs(n, "cluster", func(k, v *yaml.Node) {
		switch {
		case k.Value == "models" && v.Kind == yaml.MappingNode:
			s.Pairs(v, "cluster: models", func(m, means *yaml.Node) {
				if means.Kind == yaml.MappingNode {
					parts = append(parts, modelKey+m.Value+"="+modelText(s, m.Value, means))
				} else {
					scalar(modelKey+m.Value, means)
				}
			})
		case k.Value == "extra" && v.Kind == yaml.SequenceNode:
			parts = append(parts, "extra="+strings.Join(s.Texts(v, "cluster: extra"), "\n"))
		case k.Value == "exclude" && v.Kind == yaml.SequenceNode:
			parts = append(parts, "exclude="+strings.Join(s.Texts(v, "cluster: exclude"), ","))
		default:
			scalar(k.Value, v)
		}
	})
	if len(parts) == 0 {
		return ""
	}
	return strings.Join(parts, clusterSeparator) + clusterSeparator
}

// modelText returns {gres: gpu:a100, memory: 40GiB} as "gpu:a100 40GiB". It treats resource like
// gres. With constraint: a100 instead, it returns "constraint=a100 40GiB".
func modelText(s *source.Source, name string, n *yaml.Node) string {
	given := map[string]string{}
	s.Pairs(n, "cluster: models: "+name, func(k, v *yaml.Node) {
		switch text, _, ok := s.Scalar(v, "cluster: models: "+name); {
		case !slices.Contains([]string{"gres", "resource", "constraint", "memory"}, k.Value):
			s.Problem(k.Line, k.Column, "valid keys: gres, resource, constraint, memory", "cluster: models: unknown key in %s: %q", name, k.Value)
		case ok:
			given[k.Value] = text
		}
	})
	var means []string
	for _, key := range []string{"gres", "resource", "constraint"} {
		if text := given[key]; text != "" && key == "constraint" {
			means = append(means, "constraint="+text)
		} else if text != "" {
			means = append(means, text)
		}
	}
	if len(means) > 1 {
		s.Problem(n.Line, n.Column, "keep one: gres (Slurm) or resource (Grid Engine) for a GPU type, constraint for a node feature", "cluster: models: %s has more than one name: %s", name, strings.Join(means, " and "))
	}
	return strings.TrimSpace(strings.Join(means, "") + " " + given["memory"])
}

// modelValue checks the cluster's name for a model, and the model's memory if it is given.
func modelValue(text string) error {
	means, size, sized := strings.Cut(text, " ")
	if sized {
		if _, err := source.ParseSize(size); err != nil {
			return err
		}
	}
	if means == "" || source.IsNumber(means[:1]) {
		return source.Faultf("write \"gpu:a100 40GiB\", or \"constraint=a100\"", "%q lacks the cluster's name for the model", text)
	}
	return plain(means)
}

const clusterSeparator = "\x1f"

// clusterParts splits the result of clusterText, or a flag such as
// partition=short,long,account=vision. In a flag, a part without = belongs to the previous part.
func clusterParts(text string) (parts []string) {
	if list, ok := strings.CutSuffix(text, clusterSeparator); ok {
		return strings.Split(list, clusterSeparator)
	}
	if strings.HasPrefix(text, "extra=") {
		return []string{text}
	}
	for part := range strings.SplitSeq(text, ",") {
		if n := len(parts); n > 0 && !strings.Contains(part, "=") {
			parts[n-1] += "," + part
		} else {
			parts = append(parts, part)
		}
	}
	return parts
}

// parseCluster parses the text of the cluster setting into keys and values.
func parseCluster(text string) (map[string]string, error) {
	if text == "" {
		return nil, nil
	}
	options := map[string]string{}
	for _, part := range clusterParts(text) {
		key, value, ok := strings.Cut(part, "=")
		key = strings.TrimSpace(key)
		check := clusterKeys[key]
		if model, is := strings.CutPrefix(key, modelKey); is && model != "" {
			check = modelValue
		}
		switch {
		case check == nil:
			names := append(slices.Sorted(maps.Keys(clusterKeys)), "models")
			return nil, source.Faultf(source.DidYouMean(key, names, "valid keys: "+strings.Join(names, ", ")), "unknown key %q in cluster", key)
		case !ok || value == "":
			return nil, source.Faultf("write {"+key+": …}, or --cluster "+key+"=…", "%s has no value", key)
		case options[key] != "":
			return nil, source.Faultf("keep only one", "%s is set twice", key)
		}
		if err := check(value); err != nil {
			if f := (*source.Fault)(nil); errors.As(err, &f) {
				return nil, source.Faultf(f.Hint, "%s: %s", key, f.Text)
			}
			return nil, fmt.Errorf("%s: %w", key, err)
		}
		options[key] = value
	}
	return options, nil
}

func formatCluster(options map[string]string) string {
	var parts []string
	for _, key := range slices.Sorted(maps.Keys(options)) {
		parts = append(parts, key+"="+strings.ReplaceAll(options[key], "\n", " "))
	}
	return strings.Join(parts, ",")
}

// SpellCluster formats the cluster setting for a YAML file.
func SpellCluster(options map[string]string) string {
	var parts, models []string
	for _, key := range slices.Sorted(maps.Keys(options)) {
		value := strconv.Quote(options[key])
		switch name, isModel := strings.CutPrefix(key, modelKey); {
		case isModel:
			models = append(models, strconv.Quote(name)+": "+value)
			continue
		case key == "extra":
			var lines []string
			for line := range strings.SplitSeq(options[key], "\n") {
				lines = append(lines, strconv.Quote(line))
			}
			value = "[" + strings.Join(lines, ", ") + "]"
		}
		parts = append(parts, key+": "+value)
	}
	if models != nil {
		parts = append(parts, "models: {"+strings.Join(models, ", ")+"}")
	}
	return "{" + strings.Join(parts, ", ") + "}"
}
