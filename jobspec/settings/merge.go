package settings

import (
	"fmt"
	"maps"
	"strconv"
	"strings"

	"gpurun/jobspec/source"
)

// Merge applies the settings of flags, files and the user's defaults to base; flags take
// precedence, then files. A null in a flag restores the value from base. Merge also returns the
// settings that apply, by name. It reports each setting that two files of the batch set
// differently, unless a flag overrides that setting.
func Merge(base Settings, flags []Given, files [][]Given, user []Given, out *source.Report) (Settings, map[string]Given) {
	applies, rank := map[string]Given{}, map[string]int{}
	for i, lists := range [][][]Given{{flags}, files, {user}} {
		for _, list := range lists {
			for _, g := range list {
				d := def(g.Name)
				if err := d.set(&Settings{}, g.Text); err != nil {
					name := g.Name + ": "
					if g.Line == 0 {
						name = "" // a flag's position already names it
					}
					out.Add(g.problem(name, "").Because(err))
					continue
				}
				old, have := applies[g.Name]
				switch {
				case !have:
					applies[g.Name], rank[g.Name] = g, i
				case rank[g.Name] == i && g.Name == "notify": // combine the targets of all files
					old.Text += g.Text
					applies[g.Name] = old
				case rank[g.Name] == i && g.Name != "work_dir" && d.canonical(old.Text) != d.canonical(g.Text):
					here, there := g.Text, old.Text
					if g.Name == "cluster" { // its text is not as written in the file
						here, there = d.canonical(here), d.canonical(there)
					}
					out.Add(g.problem(fmt.Sprintf("setting %s is %q here and %q in %s", g.Name, here, there, old.Source()),
						fmt.Sprintf("make them equal, or set --%s", strings.ReplaceAll(g.Name, "_", "-"))))
				}
			}
		}
	}
	maps.DeleteFunc(applies, func(_ string, g Given) bool { return g.Text == null })
	checkBounds(applies, out)
	checkLearned(applies, out)
	s := base
	for _, d := range Table {
		g, ok := applies[d.Name]
		value, from := d.Show(&base), "default"
		if d.Name == "shuffle_seed" {
			value = "new for each run"
		}
		if ok {
			_ = d.set(&s, g.Text) // already parsed without an error
			value, from = d.Show(&s), g.Source()
		}
		s.Sources = append(s.Sources, Setting{Name: d.Name, Value: shown(d.Name, value), Source: from})
	}
	CheckCluster(s.Engine, s.Cluster, func(_, text, hint string) { out.Add(applies["cluster"].problem(text, hint)) })
	return s, applies
}

func (d Def) canonical(text string) string {
	var s Settings
	_ = d.set(&s, text) // already parsed without an error
	return d.Show(&s)
}

// checkBounds refuses a min_gpus above max_gpus, wherever they were set.
func checkBounds(applies map[string]Given, out *source.Report) {
	low, haveLow := applies["min_gpus"]
	high, haveHigh := applies["max_gpus"]
	least, _ := strconv.Atoi(low.Text) // both were parsed without an error
	most, _ := strconv.Atoi(high.Text)
	if !haveLow || !haveHigh || least <= most {
		return
	}
	at := low
	if low.Line == 0 && high.Line > 0 {
		at = high // between a flag and a line in a file, report the line
	}
	out.Add(at.problem(fmt.Sprintf("min_gpus %d (%s) is more than max_gpus %d (%s)", least, low.Source(), most, high.Source()), ""))
}

// checkLearned refuses order: longest-first if learning is off.
func checkLearned(applies map[string]Given, out *source.Report) {
	order, learn := applies["order"], applies["learn"]
	if def("order").canonical(order.Text) != LongestFirst || learn.Name == "" || def("learn").canonical(learn.Text) == "true" {
		return
	}
	out.Add(order.problem(fmt.Sprintf("order: %s needs the run times of earlier jobs, but learn is off (%s)", LongestFirst, learn.Source()), "remove one of them"))
}
