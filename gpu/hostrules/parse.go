package hostrules

import (
	"bytes"
	"errors"
	"io"
	"slices"
	"strings"
	"time"

	"gopkg.in/yaml.v3"

	"gpurun/gpu"
	"gpurun/jobspec/source"
)

// A key is a valid key of a mapping in the file.
type key[T any] struct {
	name string
	read func(p *parser, to *T, n *yaml.Node)
}

// keys are the keys of the file; docs/reference/host.md describes them.
var keys = []key[gpu.HostRules]{
	{"devices", func(p *parser, h *gpu.HostRules, n *yaml.Node) { h.Devices = p.devices(n) }},
	value("reserve", func(h *gpu.HostRules) *int { return &h.Reserve }, natural),
	value("schedule", func(h *gpu.HostRules) *gpu.Schedule { return &h.Schedule }, source.OneOf(gpu.Balance, gpu.FIFO)),
	value("courtesy", func(h *gpu.HostRules) *time.Duration { return &h.Courtesy }, positive),
	value("gather", func(h *gpu.HostRules) *time.Duration { return &h.Gather }, source.ParseDuration),
	value("patience", func(h *gpu.HostRules) *time.Duration { return &h.Patience }, source.ParseDuration),
	value("max_gpus_per_user", func(h *gpu.HostRules) *int { return &h.MaxGPUsPerUser }, natural),
	value("max_gpus_per_job", func(h *gpu.HostRules) *int { return &h.MaxGPUsPerJob }, natural),
	value("max_timeout", func(h *gpu.HostRules) *time.Duration { return &h.MaxTimeout }, positive),
	value("others", func(h *gpu.HostRules) *gpu.Others { return &h.Others }, source.OneOf(gpu.OthersAllow, gpu.OthersAvoid)),
	{"hours", func(p *parser, h *gpu.HostRules, n *yaml.Node) { h.Hours = p.hours(n) }},
	value("prompt", func(h *gpu.HostRules) *string { return &h.Prompt }, line),
	{"users", func(p *parser, h *gpu.HostRules, n *yaml.Node) { h.Users = p.users(n) }},
}

var userKeys = []key[gpu.UserEntry]{
	value("priority", func(e *gpu.UserEntry) **int { return &e.Priority }, pointer(integer)),
	value("max_gpus", func(e *gpu.UserEntry) **int { return &e.MaxGPUs }, pointer(natural)),
	{"until", func(p *parser, e *gpu.UserEntry, n *yaml.Node) { set(p, "until", n, &e.Until, p.date) }},
}

var hourKeys = []key[gpu.DeviceHours]{
	{"devices", func(p *parser, h *gpu.DeviceHours, n *yaml.Node) { h.Devices = p.devices(n) }},
	value("when", func(h *gpu.DeviceHours) *gpu.Hours { return &h.Hours }, source.ParseHours),
}

// A parser parses one file. An invalid value becomes a problem and is ignored.
type parser struct {
	*source.Source
	zone *time.Location
}

// parse parses the rules in a file. It returns false if the file as a whole is unusable.
func parse(path string, data []byte, zone *time.Location) (rules gpu.HostRules, problems []source.Problem, ok bool) {
	var out source.Report
	p := &parser{&source.Source{Path: path, Data: data, Out: &out}, zone}
	rules = *gpu.NoHostRules()
	if ok = p.file(&rules); !ok {
		return rules, out.Problems, false
	}
	rules.File = path
	for i := range out.Problems {
		out.Problems[i].Text += " (ignored)"
	}
	return rules, out.Problems, true
}

func (p *parser) file(rules *gpu.HostRules) bool {
	if len(bytes.TrimSpace(p.Data)) == 0 {
		p.Problem(0, 0, "", "is empty")
		return false
	}
	if _, err := source.ParseYAML(p.Data); errors.Is(err, io.EOF) {
		return true // only comments
	}
	root := p.Parse(names(keys))
	if root == nil || !p.Resolve(root) {
		return false
	}
	return source.IsNull(root) || read(p, root, "the file", keys, rules)
}

// read reads the keys of a mapping, and reports whether n is a mapping.
func read[T any](p *parser, n *yaml.Node, what string, known []key[T], to *T) bool {
	return p.Pairs(n, what, func(k, v *yaml.Node) {
		i := slices.IndexFunc(known, func(known key[T]) bool { return known.name == k.Value })
		switch {
		case i < 0:
			valid := "valid keys: " + strings.Join(names(known), ", ") + "; the file may be for a newer gpurun"
			p.Problem(k.Line, k.Column, source.DidYouMean(k.Value, names(known), valid), "unknown key %q", k.Value)
		case !source.IsNull(v):
			known[i].read(p, to, v)
		}
	})
}

func names[T any](known []key[T]) (list []string) {
	for _, k := range known {
		list = append(list, k.name)
	}
	return list
}

// value returns a key whose value is a scalar.
func value[T, V any](name string, at func(*T) *V, parse func(string) (V, error)) key[T] {
	return key[T]{name, func(p *parser, to *T, n *yaml.Node) { set(p, name, n, at(to), parse) }}
}

// set sets a value, and reports whether it is valid.
func set[V any](p *parser, name string, n *yaml.Node, at *V, parse func(string) (V, error)) bool {
	text, _, ok := p.Scalar(n, name)
	if !ok {
		return false
	}
	v, err := parse(text)
	if err != nil {
		p.Out.Add(source.Problem{File: p.Path, Line: n.Line, Col: n.Column, Text: name + ": "}.Because(err))
		return false
	}
	*at = v
	return true
}

// devices reads a list of indices, ranges and UUIDs, and keeps its items as written. It returns nil
// if any item is invalid.
func (p *parser) devices(n *yaml.Node) (ids []string) {
	for _, item := range p.Items(n, "devices") {
		var text string
		if !set(p, "devices", item, &text, func(text string) (string, error) {
			_, err := source.ParseGPUIDs(text)
			return text, err
		}) {
			return nil
		}
		for id := range strings.SplitSeq(text, ",") {
			ids = append(ids, strings.TrimSpace(id))
		}
	}
	return ids
}

// hours reads one or more entries. An invalid entry applies to no device.
func (p *parser) hours(n *yaml.Node) (list []gpu.DeviceHours) {
	items := []*yaml.Node{n}
	if n.Kind != yaml.MappingNode {
		items = p.Items(n, "hours")
	}
	for _, item := range items {
		var h gpu.DeviceHours
		if item.Kind == yaml.ScalarNode {
			if set(p, "hours", item, &h.Hours, source.ParseHours) {
				list = append(list, h)
			}
			continue
		}
		problems := len(p.Out.Problems)
		read(p, item, "hours", hourKeys, &h)
		named := source.Child(item, "devices")
		switch {
		case named != nil && h.Devices == nil:
		case h.Hours.String() != "":
			list = append(list, h)
		case len(p.Out.Problems) == problems:
			p.Problem(item.Line, item.Column, `add when: "Mon-Fri 20:00-08:00, Sat-Sun"`, "this hours entry has no when")
		}
	}
	return list
}

func (p *parser) users(n *yaml.Node) (list []gpu.UserEntry) {
	p.Pairs(n, "users", func(k, v *yaml.Node) {
		e := gpu.UserEntry{Key: k.Value}
		if read(p, v, "users: "+k.Value, userKeys, &e) {
			list = append(list, e)
		}
	})
	return list
}

// date parses the time when an entry expires. A date without a time includes the whole day.
func (p *parser) date(text string) (time.Time, error) {
	if t, err := time.ParseInLocation(time.DateOnly, text, p.zone); err == nil {
		return t.AddDate(0, 0, 1), nil
	}
	t, err := time.ParseInLocation("2006-01-02 15:04", text, p.zone)
	if err != nil {
		return t, source.Faultf(`write 2026-12-01 or "2026-12-01 18:00"`, "%q is not a date", text)
	}
	return t, nil
}

func natural(text string) (int, error) { return source.ParseCount(text, 0) }

func integer(text string) (int, error) {
	n, err := source.ParseInteger(text, 1e6, "")
	return int(n), err
}

func pointer(parse func(string) (int, error)) func(string) (*int, error) {
	return func(text string) (*int, error) {
		n, err := parse(text)
		return &n, err
	}
}

func positive(text string) (time.Duration, error) {
	d, err := source.ParseDuration(text)
	if err == nil && d == 0 {
		err = source.Faultf("try 5s, 10m or 24h", "invalid time %q", text)
	}
	return d, err
}

// line joins the lines of text into one.
func line(text string) (string, error) { return strings.Join(strings.Fields(text), " "), nil }
