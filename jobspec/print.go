package jobspec

import (
	"bytes"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"gpurun/jobspec/expand"
	"gpurun/jobspec/fold"
	"gpurun/jobspec/lint"
	"gpurun/jobspec/settings"
	"gpurun/jobspec/source"
)

// Print writes a batch of one file as native YAML, with every job spelled out. Parsing the result
// gives jobs with the same names, keys, needs and resources, and printing those gives the same
// text. A list of commands is an exception: Print folds it into jobs named after their parameters.
// For what native YAML cannot express, see Unlike.
func Print(b *Batch) []byte {
	p := &printer{b: b}
	p.file(&b.Files[0])
	return p.out.Bytes()
}

// Unlike lists how jobs of a dialect change when printed.
func Unlike(dialect string) []string {
	switch dialect {
	case ofBlocks.name:
		return []string{"logs/uni_id.json is neither written nor read: only the exit status of a job counts"}
	case experiment.name:
		return []string{"max_util has no effect on a GPU with only your own processes"}
	}
	return nil
}

type printer struct {
	b   *Batch
	out bytes.Buffer

	entries []string // keys of the job being printed, with their values
}

func (p *printer) line(indent int, format string, args ...any) {
	p.out.WriteString(strings.Repeat(" ", indent))
	fmt.Fprintf(&p.out, format, args...)
	p.out.WriteByte('\n')
}

// entry adds a key of a job, with its value; under adds a line to the last entry.
func (p *printer) entry(format string, args ...any) {
	p.entries = append(p.entries, fmt.Sprintf(format, args...)+"\n")
}

func (p *printer) under(indent int, format string, args ...any) {
	p.entries[len(p.entries)-1] += strings.Repeat(" ", indent) + fmt.Sprintf(format, args...) + "\n"
}

// ownKeys are never moved to defaults, even if all jobs have the same value.
var ownKeys = []string{"name", "run", "matrix", "params", "args", "config", "needs"}

// file prints one file. Keys that have the same value in all jobs go into defaults.
func (p *printer) file(f *File) {
	p.settings(f)
	jobs := p.b.Jobs
	common := map[string]int{}
	for i := range jobs {
		for _, e := range p.job(&jobs[i]) {
			common[e]++
		}
	}
	shared := func(e string) bool {
		key, _, _ := strings.Cut(e, ":")
		return len(jobs) > 1 && common[e] == len(jobs) && !slices.Contains(ownKeys, key)
	}
	head := "defaults:\n"
	for _, e := range p.job(&jobs[0]) {
		if shared(e) {
			p.out.WriteString(head + indented("  ", e))
			head = ""
		}
	}
	if folded := p.folded(f, jobs); folded != "" {
		p.out.WriteString(folded)
		return
	}
	p.line(0, "jobs:")
	for i := range jobs {
		for n, e := range p.job(&jobs[i]) {
			switch {
			case n == 0:
				p.out.WriteString("  - " + e)
			case !shared(e):
				p.out.WriteString(indented("    ", e))
			}
		}
	}
}

// folded returns the entries for a list of commands, or "" if f is another kind of file, has fewer
// than two jobs, or contains braces that would need escaping.
func (p *printer) folded(f *File, jobs []Job) string {
	if f.Dialect != ofLines.name || len(jobs) < 2 {
		return ""
	}
	table := make([]fold.Job, len(jobs))
	for i := range jobs {
		t := jobs[i].Spec.text
		line := t.Commands[len(t.Commands)-1].Raw
		if t.Setup != nil {
			line = strings.TrimPrefix(line, t.Setup.Raw+"\n")
		}
		if expand.Escape(line) != line {
			return ""
		}
		table[i].Run, table[i].Text = [][]fold.Word{lint.Words(line)}, line
	}
	return fold.Write(fold.Fold(table))
}

func indented(by, lines string) string {
	return by + strings.ReplaceAll(strings.TrimSuffix(lines, "\n"), "\n", "\n"+by) + "\n"
}

// settings prints the settings that were given, and those whose default differs from the native
// dialect's.
func (p *printer) settings(f *File) {
	base := settings.Defaults()
	head := "settings:\n"
	raw := func(name, value string) {
		p.out.WriteString(head)
		head = ""
		p.line(2, "%s: %s", name, value)
	}
	given := func(name, value string) { raw(name, source.SpellValue(value)) }
	if f.dir != "." {
		given("work_dir", f.dir)
	}
	for i, d := range settings.Table {
		if slices.Contains([]string{"work_dir", "program", "seed_as"}, d.Name) {
			continue // the last two are printed with the jobs
		}
		if d.Name == "notify" {
			if strings.HasPrefix(p.b.Settings.Sources[i].Source, f.Path+":") {
				raw(d.Name, settings.SpellNotify(p.b.Settings.Notify)) // without the user's own targets
			}
			continue
		}
		if d.Name == "cluster" && len(p.b.Settings.Cluster) > 0 {
			raw(d.Name, settings.SpellCluster(p.b.Settings.Cluster))
			continue
		}
		value := d.Show(&p.b.Settings)
		if p.b.Settings.Sources[i].Source != "default" || value != d.Show(&base) {
			given(d.Name, value)
		}
	}
}

func (p *printer) text(key string, t *expand.Text) {
	if t != nil {
		p.entry("%s: %s", key, source.Spell(t.Raw))
	}
}

func (p *printer) list(key string, list []*expand.Text) {
	if len(list) == 0 {
		return
	}
	p.entry("%s:", key)
	for i := range list {
		p.under(2, "- %s", source.Spell(list[i].Raw))
	}
}

// job returns the keys of a job, starting with its name.
func (p *printer) job(j *Job) []string {
	p.entries = nil
	t := j.Spec.text
	p.entry("name: %s", source.Spell(j.Name))
	p.params(j.values().Params)
	p.run(t)
	p.args(t)
	p.list("needs", t.Needs)
	p.text("queue", t.Queue)
	p.resources(j, t)
	if len(t.Env) > 0 {
		p.entry("env:")
		for i := range t.Env {
			p.under(2, "%s: %s", t.Env[i].Name, source.Spell(t.Env[i].Value.Raw))
		}
	}
	p.text("work_dir", t.WorkDir)
	if len(t.Shell) > 0 {
		p.entry("shell:")
		for _, word := range t.Shell {
			p.under(2, "- %s", source.Spell(word))
		}
	}
	p.text("log", t.Log)
	p.text("stdout", t.Stdout)
	p.text("stderr", t.Stderr)
	p.list("outputs", t.Outputs)
	p.list("inputs", t.Inputs)
	p.metrics(t.Metrics)
	p.config(j, t.Config)
	if len(j.Spec.Notify) > 0 {
		p.entry("notify: %s", settings.SpellNotify(j.Spec.Notify))
	}
	return p.entries
}

// run prints the commands. A single script is printed as such, not as a list.
func (p *printer) run(t *expand.Job) {
	setup, commands := t.Setup, slices.Clone(t.Commands[t.Activation():])
	for _, c := range t.Commands[:t.Activation()] {
		if setup != nil {
			c = c.Below(setup)
		}
		setup = c
	}
	p.text("setup", setup)
	for i, c := range commands {
		if t.Setup != nil {
			commands[i] = &expand.Text{Raw: strings.TrimPrefix(c.Raw, setup.Raw+"\n")}
		}
	}
	if len(commands) != 1 {
		p.list("run", commands)
		return
	}
	head, lines := source.SpellScript(commands[0].Raw)
	p.entry("run: %s", head)
	for _, l := range lines {
		p.under(2, "%s", l)
	}
}

// params prints parameters. A null parameter goes into a matrix with one value, because null in
// params would remove it.
func (p *printer) params(list []*Param) {
	print := func(head string, null bool) {
		if !slices.ContainsFunc(list, func(v *Param) bool { return (v.Tag == "!!null") == null }) {
			return
		}
		p.entry("%s:", head)
		for _, v := range list {
			switch {
			case (v.Tag == "!!null") != null:
			case null:
				p.under(2, "%s:", v.Name)
				p.under(4, "- %s", source.SpellAs(v.Tag, v.Text))
			default:
				p.under(2, "%s: %s", v.Name, source.SpellAs(v.Tag, v.Text))
			}
		}
	}
	print("matrix", true)
	print("params", false)
}

func (p *printer) args(t *expand.Job) {
	if len(t.Args) == 0 {
		return
	}
	p.entry("args:")
	for _, a := range t.Args {
		p.under(2, "%s: %s", source.Spell(a.Key), source.SpellAs(a.Tag, a.Value.Raw))
	}
}

// resources prints the resources set in the job file, and those implied by its dialect.
func (p *printer) resources(j *Job, t *expand.Job) {
	implied := p.implied(j)
	for _, rk := range JobKeys {
		if strings.Contains(rk.Name, ".") {
			continue
		}
		i := slices.IndexFunc(t.Resources, func(r expand.Resource) bool { return r.Key == rk.Name })
		switch {
		case i >= 0 && !(j.Spec.Tree && rk.Name == "retry"):
			p.resource(0, rk.Name, &t.Resources[i])
		case implied[rk.Name] != "":
			p.entry("%s: %s", rk.Name, implied[rk.Name])
		}
	}
	if j.Spec.Tree {
		p.retry(&j.Spec.Retry)
	}
	last := ""
	for i := range t.Resources {
		r := &t.Resources[i]
		if mapping, key, ok := strings.Cut(r.Key, "."); ok && !(j.Spec.Tree && mapping == "retry") {
			if mapping != last {
				p.entry("%s:", mapping)
				last = mapping
			}
			p.resource(2, key, r)
		}
	}
}

// implied returns the defaults of a job's dialect that differ from those of native jobs.
func (p *printer) implied(j *Job) map[string]string {
	all := map[string]string{}
	if j.Spec.Tree {
		all["leftovers"] = "wait"
	}
	if r := j.Spec.Request; r.Max > 0 && (j.Spec.Tree || r.UtilOnOwn) {
		all["max_util"], all["share"] = strconv.Itoa(r.MaxUtil), strconv.FormatBool(r.Share)
	}
	return all
}

// retry prints the retries of a block, because their defaults differ from those of native jobs.
func (p *printer) retry(r *Retry) {
	most := strconv.Itoa(r.Max)
	if r.Max < 0 {
		most = "forever"
	}
	p.entry("retry:")
	p.under(2, "max: %s", most)
	p.under(2, "delay: %s", source.FormatDuration(r.Delay))
	p.under(2, "backoff_after: %d", r.BackoffAfter)
	p.under(2, "backoff: %s", source.FormatDuration(r.Backoff))
	if len(r.On) > 0 {
		p.under(2, "on: [%s]", strings.Join(r.On, ", "))
	}
	if r.MemoryGrowth > 0 {
		p.under(2, "memory_growth: %s", strconv.FormatFloat(r.MemoryGrowth, 'f', -1, 64))
	}
}

func (p *printer) resource(indent int, key string, r *expand.Resource) {
	value := ""
	if len(r.Texts) == 1 {
		value = " " + source.SpellValue(r.Texts[0].Raw)
	}
	if indent == 0 {
		p.entries = append(p.entries, "")
	}
	p.under(indent, "%s:%s", key, value)
	if value != "" {
		return
	}
	for i := range r.Texts {
		p.under(indent+2, "- %s", source.SpellValue(r.Texts[i].Raw))
	}
}

// metrics prints the metrics of a job.
func (p *printer) metrics(list []Metric) {
	if len(list) > 0 {
		p.entry("metrics:")
	}
	for _, m := range list {
		p.under(2, "%s:", source.Spell(m.Name))
		if m.Log != nil {
			p.under(4, "log: %s", source.Spell(m.Log.String()))
		}
		if m.Step != nil {
			p.under(4, "step: %s", source.Spell(m.Step.String()))
		}
		if m.File != nil {
			p.under(4, "file: %s", source.Spell(m.File.Raw))
			p.under(4, "key: %s", source.Spell(m.Key))
		}
		if m.At != "" {
			best := Min
			if m.AtMax {
				best = Max
			}
			p.under(4, "at: %s", source.Spell(string(best)+" "+m.At))
		}
		if m.Goal != "" {
			p.under(4, "goal: %s", m.Goal)
		}
		p.under(4, "percent: %t", m.Percent)
	}
}

func (p *printer) config(j *Job, c *expand.Config) {
	if c == nil {
		return
	}
	p.entry("config:")
	p.under(2, "base: %s", source.Spell(c.Base.Raw))
	if c.Path != nil {
		p.under(2, "path: %s", source.Spell(c.Path.Raw))
	}
	if len(c.Sets) == 0 {
		return
	}
	p.under(2, "set:")
	v, _ := p.b.plan(j) // its paths were checked
	_, sets, _ := p.b.open(c, v, func(string) {})
	for i, s := range c.Sets {
		key := strings.Join(s.Path, ".")
		if sets[i].Add {
			key = "+" + key
		}
		p.under(4, "%s: %s", source.Spell(key), source.SpellAs(s.Tag, s.Value.Raw))
	}
}
