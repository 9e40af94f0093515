package jobspec

import (
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"time"

	"gopkg.in/yaml.v3"

	"gpurun/gpu"
	"gpurun/jobspec/lint"
	"gpurun/jobspec/source"
	"gpurun/jobspec/units"
)

// A settingDef is one setting of the reference: how to parse and print it, and what a
// bare number means on the command line.
type settingDef struct {
	name string
	bare string // unit of a bare number in a flag: "MiB", "s" or ""
	set  func(s *Settings, text string) error
	show func(s *Settings) string
}

func countSetting(name string, at func(*Settings) *int) settingDef {
	return settingDef{name, "", func(s *Settings, t string) (err error) {
		*at(s), err = units.ParseCount(t, 0)
		return err
	}, func(s *Settings) string { return strconv.Itoa(*at(s)) }}
}

func timeSetting(name string, at func(*Settings) *time.Duration) settingDef {
	return settingDef{name, "s", func(s *Settings, t string) (err error) {
		*at(s), err = units.ParseDuration(t)
		return err
	}, func(s *Settings) string { return units.FormatDuration(*at(s)) }}
}

func switchSetting(name string, at func(*Settings) *bool) settingDef {
	return settingDef{name, "", func(s *Settings, t string) (err error) {
		*at(s), err = units.ParseBool(t)
		return err
	}, func(s *Settings) string { return strconv.FormatBool(*at(s)) }}
}

// settingDefs returns all settings in the order of the reference.
func settingDefs() []settingDef {
	return []settingDef{
		countSetting("max_concurrent", func(s *Settings) *int { return &s.MaxConcurrent }),
		{"min_memory", "MiB", func(s *Settings, t string) (err error) {
			s.MinMemory, err = units.ParseSize(t)
			return err
		}, func(s *Settings) string { return sizeText(s.MinMemory) }},
		{"max_util", "", func(s *Settings, t string) (err error) {
			s.MaxUtil, err = units.ParsePercent(t)
			return err
		}, func(s *Settings) string { return strconv.Itoa(s.MaxUtil) }},
		{"poll", "s", func(s *Settings, t string) (err error) {
			if s.Poll, err = units.ParseDuration(t); err == nil && s.Poll < 10*time.Millisecond {
				return source.Faultf("try 5s", "%q would poll the GPUs without a pause", t)
			}
			return err
		}, func(s *Settings) string { return units.FormatDuration(s.Poll) }},
		timeSetting("max_wait", func(s *Settings) *time.Duration { return &s.MaxWait }),
		{"work_dir", "", func(*Settings, string) error { return nil }, func(*Settings) string { return "" }},
		{"gpu_ids", "", func(s *Settings, t string) (err error) {
			s.GPUIDs, err = units.ParseGPUIDs(t)
			return err
		}, func(s *Settings) string { return strings.Join(s.GPUIDs, ",") }},
		countSetting("reserve", func(s *Settings) *int { return &s.Reserve }),
		countSetting("min_gpus", func(s *Settings) *int { return &s.MinGPUs }),
		countSetting("max_gpus", func(s *Settings) *int { return &s.MaxGPUs }),
		switchSetting("share", func(s *Settings) *bool { return &s.Share }),
		{"others", "", func(s *Settings, t string) error {
			w, err := units.ParseWord(t, string(gpu.OthersAllow), string(gpu.OthersAvoid))
			s.Others = gpu.Others(w)
			return err
		}, func(s *Settings) string { return string(s.Others) }},
		{"pick", "", func(s *Settings, t string) error {
			w, err := units.ParseWord(t, string(gpu.MostFree), string(gpu.LeastUtil), string(gpu.FirstFit), string(gpu.BestFit), string(gpu.RoundRobin))
			s.Pick = gpu.Pick(w)
			return err
		}, func(s *Settings) string { return string(s.Pick) }},
		{"order", "", func(s *Settings, t string) (err error) {
			s.Order, err = units.ParseWord(t, "file", "shuffle", "largest-first")
			return err
		}, func(s *Settings) string { return s.Order }},
		{"shuffle_seed", "", func(s *Settings, t string) error {
			n, err := strconv.ParseInt(t, 10, 64)
			if err != nil {
				return source.Faultf("", "%q is not a whole number", t)
			}
			s.ShuffleSeed = n
			return nil
		}, func(s *Settings) string { return strconv.FormatInt(s.ShuffleSeed, 10) }},
		timeSetting("patience", func(s *Settings) *time.Duration { return &s.Patience }),
		timeSetting("grace", func(s *Settings) *time.Duration { return &s.Grace }),
		switchSetting("fail_fast", func(s *Settings) *bool { return &s.FailFast }),
		{"program", "", func(s *Settings, t string) error {
			if s.Program = strings.TrimSpace(t); s.Program == "" {
				return source.Faultf("try python test.py", "%q runs nothing", t)
			}
			return nil
		}, func(s *Settings) string { return s.Program }},
		{"seed_as", "", func(s *Settings, t string) (err error) {
			s.SeedAs, err = units.ParseWord(t, "config", "argument")
			return err
		}, func(s *Settings) string { return s.SeedAs }},
		countSetting("breaker", func(s *Settings) *int { return &s.Breaker }),
		{"allow", "", func(s *Settings, t string) (err error) {
			s.Allow, err = lint.ParseAllow(strings.Split(t, ","))
			return err
		}, func(s *Settings) string { return strings.Join(s.Allow, ",") }},
	}
}

// defaultSettings returns the defaults of the reference.
func defaultSettings() Settings {
	return Settings{
		MinMemory: 8000 * gpu.MiB, MaxUtil: 30, Poll: 5 * time.Second,
		MinGPUs: -1, MaxGPUs: -1, Others: gpu.OthersAllow, Pick: gpu.MostFree, Order: "file",
		Patience: 10 * time.Minute, Grace: 10 * time.Second,
		Program: "python test.py", SeedAs: "config", Breaker: 5,
	}
}

func sizeText(b gpu.Bytes) string {
	if b == 0 {
		return "0"
	}
	return b.String()
}

// A given is a setting that somebody wrote, as text, with its position.
type given struct {
	name, text string
	file       string // as in messages
	line, col  int
}

func (g given) source() string {
	if g.line == 0 {
		return g.file
	}
	return g.file + ":" + strconv.Itoa(g.line)
}

func settingNames(defs []settingDef) []string {
	var names []string
	for _, d := range defs {
		names = append(names, d.name)
	}
	return names
}

// readSettings reads the settings of a mapping as text.
func readSettings(s *source.Source, n *yaml.Node, defs []settingDef) []given {
	names := settingNames(defs)
	var list []given
	s.Pairs(n, "settings", func(k, v *yaml.Node) {
		if !slices.Contains(names, k.Value) {
			s.Problem(k.Line, k.Column, settingHint(k.Value, names), "unknown setting %q", k.Value)
			return
		}
		homeSlip(s, k.Value, v)
		text, ok := settingText(s, k.Value, v)
		if ok {
			list = append(list, given{k.Value, text, s.Path, v.Line, v.Column})
		}
	})
	return list
}

func settingHint(word string, names []string) string {
	if slices.Contains(jobKeys, word) {
		return "it is a job key: move it under defaults or into a job"
	}
	return source.DidYouMean(word, names, "valid settings: "+strings.Join(names, ", "))
}

// settingText returns a setting's value as one text; some may be lists. null counts as
// not given.
func settingText(s *source.Source, name string, v *yaml.Node) (string, bool) {
	if (name == "gpu_ids" || name == "allow") && v.Kind == yaml.SequenceNode {
		var parts []string
		for _, item := range s.Items(v, name) {
			if text, _, ok := s.Scalar(item, name); ok {
				parts = append(parts, text)
			}
		}
		return strings.Join(parts, ","), len(parts) > 0
	}
	text, tag, ok := s.Scalar(v, name)
	return text, ok && tag != "!!null"
}

// A settingsReader merges settings from several places, strongest first.
type settingsReader struct {
	defs  []settingDef
	out   *source.Report
	given map[string]given  // what applies so far, by name
	ranks map[string]string // kind of place it came from
}

// take adds the settings of one file. A setting that two files of the batch give
// differently is a problem, unless a flag decides it.
func (r *settingsReader) take(list []given, rank string) {
	for _, g := range list {
		def := r.def(g.name)
		var scratch Settings
		if err := def.set(&scratch, g.text); err != nil {
			r.complain(g, err)
			continue
		}
		old, have := r.given[g.name]
		switch {
		case !have:
			r.given[g.name], r.ranks[g.name] = g, rank
		case r.ranks[g.name] != rank || g.name == "work_dir":
		case r.canonical(def, old.text) != r.canonical(def, g.text):
			r.out.Add(Problem{File: g.file, Line: g.line, Col: g.col,
				Text: fmt.Sprintf("setting %s is %q here and %q in %s", g.name, g.text, old.text, old.source()),
				Hint: fmt.Sprintf("make them equal, or set --%s", strings.ReplaceAll(g.name, "_", "-"))})
		}
	}
}

func (r *settingsReader) canonical(def settingDef, text string) string {
	var s Settings
	_ = def.set(&s, text) // was parsed before
	return def.show(&s)
}

func (r *settingsReader) def(name string) settingDef {
	i := slices.IndexFunc(r.defs, func(d settingDef) bool { return d.name == name })
	return r.defs[i]
}

func (r *settingsReader) complain(g given, err error) {
	name := g.name + ": "
	if g.line == 0 {
		name = "" // a flag: its position names it
	}
	r.out.Add(Problem{File: g.file, Line: g.line, Col: g.col, Text: name}.Because(err))
}

// flags reads settings from the command line, where a bare size is MiB and a bare time
// seconds.
func (r *settingsReader) flags(flags map[string]string) []given {
	var list []given
	for _, d := range r.defs {
		name := strings.ReplaceAll(d.name, "_", "-")
		text, ok := flags[name]
		if !ok {
			continue
		}
		if d.bare != "" && units.IsNumber(text) {
			if n, _ := strconv.ParseFloat(text, 64); d.bare == "MiB" && n > 0 && n < 256 {
				r.out.Warn(Problem{File: "--" + name, Text: text + " means " + text + "MiB, which nearly every GPU has free", Hint: "if you mean GiB, write " + text + "GiB"})
			}
			text += d.bare
		}
		list = append(list, given{name: d.name, text: text, file: "--" + name})
	}
	return list
}

// userConfig reads the user's own defaults; the file may be missing.
func userConfig(path string, out *source.Report, defs []settingDef) []given {
	if path == "" {
		return nil
	}
	data, err := source.ReadRegular(path)
	if err != nil && strings.Contains(err.Error(), "no such file") {
		return nil
	}
	if _, yamlErr := source.ParseYAML(data); err == nil && errors.Is(yamlErr, io.EOF) {
		return nil // only comments
	}
	s := source.Read(path, out)
	if s == nil {
		return nil
	}
	root := s.Parse(ourKeys())
	if root == nil || source.IsNull(root) || !s.Resolve(root) {
		return nil
	}
	return readSettings(s, root, defs)
}

// result lays everything given over the defaults.
func (r *settingsReader) result(base Settings, defs []settingDef) Settings {
	s := base
	for _, d := range defs {
		g, ok := r.given[d.name]
		value, from := d.show(&base), "default"
		if d.name == "shuffle_seed" {
			value = "new for each run"
		}
		if ok {
			_ = d.set(&s, g.text) // was parsed before
			value, from = d.show(&s), g.source()
		}
		s.Sources = append(s.Sources, Setting{Name: d.name, Value: settingValue(d.name, value), Source: from})
	}
	return s
}

// sources completes what plan -v shows once all files are read: each file's own work
// dir, and the defaults that depend on the dialect.
func (l *loader) sources() {
	experiments := slices.ContainsFunc(l.files, func(f *fileJobs) bool { return f.dialect == "experiment list" })
	var all []Setting
	for _, s := range l.batch.Settings.Sources {
		switch {
		case s.Name == "work_dir":
			for _, f := range l.files {
				all = append(all, Setting{s.Name, f.dirKey, f.dirFrom})
			}
			all = slices.Compact(all)
			continue
		case s.Name == "share" && s.Source == "default" && experiments:
			s.Value = "true for experiments, otherwise false"
		}
		all = append(all, s)
	}
	l.batch.Settings.Sources = all
}

// settingValue describes special values that the bare value would not explain.
func settingValue(name, value string) string {
	switch {
	case name == "max_concurrent" && value == "0":
		return "no limit but the GPUs"
	case name == "breaker" && value == "0":
		return "never"
	case name == "max_wait" && value == "0":
		return "no limit"
	case value == "-1", name == "gpu_ids" && value == "":
		return "not set"
	case name == "allow" && value == "":
		return "none"
	}
	return value
}
