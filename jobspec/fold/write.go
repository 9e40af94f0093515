package fold

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"gpurun/jobspec/expand"
	"gpurun/jobspec/source"
)

const width = 100 // maximum length of a line

// names returns the names of an entry's parameters.
func (e *Entry) names() (names []string) {
	for _, c := range slices.Concat(e.params...) {
		names = append(names, c.name)
	}
	return names
}

// Write formats entries as the jobs of a job file.
func Write(entries []Entry) string {
	text := "jobs:\n"
	for _, e := range entries {
		var lines, matrix []string
		var zips [][]string
		for _, set := range e.params {
			if axes := spelled(set, e.names()); len(set) == 1 {
				matrix = append(matrix, axes...)
			} else {
				zips = append(zips, axes)
			}
		}
		line := func(list ...string) { lines = append(lines, list...) }
		line("name: " + source.Spell(e.Name))
		line(mapping("matrix", matrix)...)
		if len(e.params) == 1 && len(zips) == 1 && slices.ContainsFunc(zips[0], func(l string) bool { return len(l) > width }) {
			line("matrix:", "  include:") // one row per line
			for r := range e.params[0][0].values {
				row := make([]string, len(zips[0]))
				for i, c := range e.params[0] {
					row[i] = c.name + ": " + value(c.values[r], e.names())
				}
				line("    - {" + strings.Join(row, ", ") + "}")
			}
		} else if len(zips) == 1 {
			line(mapping("zip", zips[0])...)
		} else if len(zips) > 1 {
			line("zip:")
			for _, z := range zips {
				line("  - " + strings.Join(z, "\n        "))
			}
		}
		if len(e.Needs) > 0 {
			line("needs: " + strings.ReplaceAll(fmt.Sprintf("%q", e.Needs), `" "`, `", "`))
		}
		if e.Queued {
			line("queue: launcher")
		}
		if len(e.keys) > 0 && e.keys[0][0] == "work_dir" {
			line("work_dir: " + source.Spell(e.keys[0][1]))
		}
		if len(e.env) > 0 {
			line("env:")
		}
		for _, kv := range e.env {
			name, value, _ := strings.Cut(kv, "=")
			line("  " + name + ": " + strconv.Quote(value))
		}
		line(e.Keys...)
		if e.text != "" {
			line("run: " + source.Spell(e.text))
		} else if len(e.run) == 1 {
			line(command("run: ", "  ", e.run[0])...)
		} else {
			line("run:")
			for _, c := range e.run {
				line(command("  - ", "    ", c)...)
			}
		}
		for _, kv := range e.keys {
			if kv[0] != "work_dir" {
				line(kv[0] + ": " + source.Spell(kv[1]))
			}
		}
		text += "  - " + strings.Join(lines, "\n    ") + "\n"
	}
	return text
}

// mapping formats a key with a mapping, on one line if it is short.
func mapping(key string, list []string) []string {
	if len(list) == 0 {
		return nil
	}
	if flow := key + ": {" + strings.Join(list, ", ") + "}"; len(flow) < width && len(list) < 3 {
		return []string{flow}
	}
	out := []string{key + ":"}
	for _, l := range list {
		out = append(out, "  "+l)
	}
	return out
}

var (
	number  = source.Regexp(`^(?:0|-?[1-9][0-9]{0,14})$`)
	numeral = source.Regexp(`^-?[0-9]+(?:\.[0-9]+)?(?:e[+-]?[0-9]+)?$`)
	inFlow  = source.Regexp(`^[A-Za-z0-9_./=+@%^-]+$`)
)

// value spells a value for a list or mapping that is on one line.
func value(v string, names []string) string {
	if v = expand.Escape(v, names...); numeral().MatchString(v) || inFlow().MatchString(v) && source.Spell(v) == v {
		return v
	}
	return strconv.Quote(v)
}

// spelled formats columns as name: values. Values that form a range are written as a range.
func spelled(set []*column, names []string) (out []string) {
	for _, c := range set {
		list := make([]string, len(c.values))
		for i, v := range c.values {
			list[i] = value(v, names)
		}
		text := "[" + strings.Join(list, ", ") + "]"
		if by := step(c.values); by == 1 {
			text = list[0] + ".." + list[len(list)-1]
		} else if by > 1 {
			text = fmt.Sprintf("%s..%s..%d", list[0], list[len(list)-1], by)
		}
		out = append(out, c.name+": "+text)
	}
	return out
}

// step returns the constant difference between ascending whole numbers. It returns 0 if there is none,
// or if there are fewer than three values.
func step(values []string) (by int) {
	last := 0
	for i, v := range values {
		n, _ := strconv.Atoi(v)
		if !number().MatchString(v) || i == 1 && n <= last || i > 1 && n-last != by {
			return 0
		}
		if i > 0 {
			by = n - last
		}
		last = n
	}
	if len(values) < 3 {
		return 0
	}
	return by
}

var wrapped = source.Regexp(`\S.{0,92}(?: |$)|\S+ ?`) // one line of a long command

// command formats a command, on several lines if it is long.
func command(key, indent, s string) []string {
	if len(s) <= width || strings.ContainsAny(s, "'\"\n\\#") {
		return []string{key + source.Spell(s)}
	}
	lines := wrapped().FindAllString(s, -1)
	head, block := source.SpellScript(strings.Join(lines, "\\\n  ") + "\n")
	if block == nil {
		return []string{key + strconv.Quote(s)}
	}
	return append([]string{key + head}, strings.Split(indent+strings.Join(block, "\n"+indent), "\n")...)
}
