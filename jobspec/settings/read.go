package settings

import (
	"errors"
	"io"
	"slices"
	"strconv"
	"strings"

	"gopkg.in/yaml.v3"

	"gpurun/jobspec/source"
)

// A Given is a setting as written, with its position.
type Given struct {
	Name, Text string
	File       string // path or flag, for messages
	Line, Col  int
}

// Source returns the position as FILE or FILE:LINE.
func (g Given) Source() string {
	if g.Line == 0 {
		return g.File
	}
	return g.File + ":" + strconv.Itoa(g.Line)
}

// problem returns a Problem at the setting's position.
func (g Given) problem(text, hint string) source.Problem {
	return source.Problem{File: g.File, Line: g.Line, Col: g.Col, Text: text, Hint: hint}
}

// FromMapping reads the settings of a mapping as text. jobKeys are for hints.
func FromMapping(s *source.Source, n *yaml.Node, jobKeys []string) []Given {
	names := Names()
	var list []Given
	s.Pairs(n, "settings", func(k, v *yaml.Node) {
		if !slices.Contains(names, k.Value) {
			hint := source.DidYouMean(k.Value, names, "valid settings: "+strings.Join(names, ", "))
			if slices.Contains(jobKeys, k.Value) {
				hint = "it is a job key: move it under defaults or into a job"
			} else if k.Value == "settings" { // in the user's config
				hint = "move its keys up one level: this file contains only settings"
			}
			s.Problem(k.Line, k.Column, hint, "unknown setting %q", k.Value)
			return
		}
		source.HomeSlip(s, k.Value, v)
		if text, ok := Text(s, k.Value, v); ok {
			list = append(list, Given{k.Value, text, s.Path, v.Line, v.Column})
		}
	})
	return list
}

// Text returns a setting's value as text. Some settings also accept a list or a mapping. null
// counts as not given.
func Text(s *source.Source, name string, v *yaml.Node) (string, bool) {
	if (name == "gpu_ids" || name == "hours" || name == "allow") && v.Kind == yaml.SequenceNode {
		parts := s.Texts(v, name)
		return strings.Join(parts, ","), len(parts) > 0
	}
	if name == "pools" && v.Kind == yaml.MappingNode {
		var parts []string
		s.Pairs(v, name, func(k, size *yaml.Node) {
			if text, _, ok := s.Scalar(size, name+": "+k.Value); ok {
				parts = append(parts, k.Value+"="+text)
			}
		})
		return strings.Join(parts, ","), len(parts) > 0
	}
	if name == "cluster" && v.Kind == yaml.MappingNode {
		text := clusterText(s, v)
		return text, text != ""
	}
	if name == "notify" && !source.IsNull(v) {
		return notifyText(s, v, usualEvents, NotifyEvents)
	}
	text, tag, ok := s.Scalar(v, name)
	return text, ok && tag != "!!null"
}

// FromFlags reads settings from the command line, where a bare size is in MiB and a bare time in
// seconds.
func FromFlags(flags map[string]string, out *source.Report) []Given {
	var list []Given
	for _, d := range Table {
		flag := strings.ReplaceAll(d.Name, "_", "-")
		text, ok := flags[flag]
		if !ok {
			continue
		}
		g := Given{Name: d.Name, Text: text, File: "--" + flag}
		if d.bare != "" && source.IsNumber(text) {
			if n, _ := strconv.ParseFloat(text, 64); d.bare == "MiB" && n > 0 && n < 256 {
				out.Warn(g.problem(text+" means "+text+"MiB, which nearly every GPU has free", "if you mean GiB, write "+text+"GiB"))
			}
			g.Text += d.bare
		}
		list = append(list, g)
	}
	return list
}

// FromUser reads the user's defaults. The file may be missing, or contain only comments.
func FromUser(path string, keys, jobKeys []string, out *source.Report) []Given {
	if path == "" {
		return nil
	}
	out.Note(path)
	data, err := source.ReadAnywhere(path)
	switch {
	case err != nil && strings.Contains(err.Error(), "no such file"):
		return nil
	case err != nil:
		out.Add(source.Problem{File: path}.Because(err))
		return nil
	}
	if _, err := source.ParseYAML(data); errors.Is(err, io.EOF) {
		return nil
	}
	s := source.Given(path, data, out)
	if s == nil {
		return nil
	}
	root := s.Parse(keys)
	if source.IsNull(root) || !s.Resolve(root) {
		return nil
	}
	return FromMapping(s, root, jobKeys)
}
