package jobspec

import (
	"bytes"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"gpurun/jobspec/expand"
	"gpurun/jobspec/settings"
	"gpurun/jobspec/units"
	"gpurun/jobspec/written"
)

// Print writes a batch as native YAML, with every job spelled out. Parsed again it
// gives jobs with the same names, keys, needs and resources; printed again it gives the
// same text. Several files become several documents. What native YAML cannot express is
// left out: that uni_id.json decides how a block's job ended, and that a utilization
// limit also counts the user's own processes (gpu.Request.UtilOnOwn).
func Print(b *Batch) []byte {
	p := &printer{b: b}
	for i := range b.Files {
		if i > 0 {
			p.line(0, "---")
		}
		p.settings(&b.Files[i])
		p.line(0, "jobs:")
		f := &b.Files[i]
		for id := f.First; id < f.First+f.Count; id++ {
			p.job(&b.Jobs[id])
		}
	}
	return p.out.Bytes()
}

type printer struct {
	b   *Batch
	out bytes.Buffer
}

func (p *printer) line(indent int, format string, args ...any) {
	p.out.WriteString(strings.Repeat(" ", indent))
	fmt.Fprintf(&p.out, format, args...)
	p.out.WriteByte('\n')
}

// settings prints the settings that were given and those whose default differs from
// the native dialect's.
func (p *printer) settings(f *File) {
	base := settings.Defaults()
	p.line(0, "settings:")
	p.line(2, "work_dir: %s", strconv.Quote(f.dir))
	for i, d := range settings.Table {
		if d.Name == "work_dir" || i >= len(p.b.Settings.Sources) {
			continue
		}
		value := d.Show(&p.b.Settings)
		if p.b.Settings.Sources[i].Source != "default" || value != d.Show(&base) {
			p.line(2, "%s: %s", d.Name, plain(value))
		}
	}
}

// value spells a scalar so that it keeps its type when read back.
func value(text, tag string) string {
	switch tag {
	case "!!int", "!!float", "!!bool", "!!null":
		return text
	}
	return strconv.Quote(text)
}

func (p *printer) text(key string, t *expand.Text) {
	if t != nil {
		p.line(4, "%s: %s", key, strconv.Quote(t.Raw))
	}
}

func (p *printer) list(key string, list []*expand.Text) {
	if len(list) == 0 {
		return
	}
	p.line(4, "%s:", key)
	for i := range list {
		p.line(6, "- %s", strconv.Quote(list[i].Raw))
	}
}

func (p *printer) job(j *Job) {
	t := j.Spec.text
	p.line(2, "- name: %s", strconv.Quote(j.Name))
	p.params(j.values().Params)
	p.list("run", t.Commands)
	p.args(t)
	p.list("needs", t.Needs)
	p.text("queue", t.Queue)
	if p.b.Files[j.File].Dialect == "block" {
		p.block(j.Spec)
	} else {
		p.resources(j, t)
	}
	if len(t.Env) > 0 {
		p.line(4, "env:")
		for i := range t.Env {
			p.line(6, "%s: %s", t.Env[i].Name, strconv.Quote(t.Env[i].Value.Raw))
		}
	}
	p.text("work_dir", t.WorkDir)
	if len(t.Shell) > 0 {
		p.line(4, "shell:")
		for _, word := range t.Shell {
			p.line(6, "- %s", strconv.Quote(word))
		}
	}
	p.text("log", t.Log)
	p.text("stdout", t.Stdout)
	p.text("stderr", t.Stderr)
	p.list("outputs", t.Outputs)
	p.list("inputs", t.Inputs)
	p.config(j, t.Config)
}

// params prints parameters. A null one goes into a one-value matrix, because null in
// params removes the parameter.
func (p *printer) params(list []*Param) {
	print := func(head string, null bool) {
		if !slices.ContainsFunc(list, func(v *Param) bool { return (v.Tag == "!!null") == null }) {
			return
		}
		p.line(4, "%s:", head)
		for _, v := range list {
			switch {
			case (v.Tag == "!!null") != null:
			case null:
				p.line(6, "%s:", v.Name)
				p.line(8, "- %s", value(v.Text, v.Tag))
			default:
				p.line(6, "%s: %s", v.Name, value(v.Text, v.Tag))
			}
		}
	}
	print("matrix", true)
	print("params", false)
}

func (p *printer) args(t *written.Job) {
	if len(t.Args) == 0 {
		return
	}
	p.line(4, "args:")
	for _, a := range t.Args {
		p.line(6, "%s: %s", strconv.Quote(a.Key), value(a.Value.Raw, a.Tag))
	}
}

// resources prints what the job file sets, and what an experiment list implies.
func (p *printer) resources(j *Job, t *written.Job) {
	for _, rk := range resourceKeys {
		if strings.Contains(rk.key, ".") {
			continue
		}
		i := slices.IndexFunc(t.Resources, func(r written.Resource) bool { return r.Key == rk.key })
		switch r := j.Spec.Request; {
		case i >= 0:
			p.resource(4, rk.key, &t.Resources[i])
		case j.Spec.Request.UtilOnOwn && r.Max > 0 && rk.key == "max_util":
			p.line(4, "max_util: %d", r.MaxUtil)
		case j.Spec.Request.UtilOnOwn && r.Max > 0 && rk.key == "share":
			p.line(4, "share: %t", r.Share)
		}
	}
	last := ""
	for i := range t.Resources {
		r := &t.Resources[i]
		if mapping, key, ok := strings.Cut(r.Key, "."); ok {
			if mapping != last {
				p.line(4, "%s:", mapping)
				last = mapping
			}
			p.resource(6, key, r)
		}
	}
}

var plainValue = regexp.MustCompile(`^([0-9][0-9A-Za-z.]*|true|false|forever|success|failure|always|auto|wait|kill|fail|exit|oom|timeout|signal|lost|all)$`)

// plain leaves out the quotes if no YAML reader needs them.
func plain(s string) string {
	if plainValue.MatchString(s) {
		return s
	}
	return strconv.Quote(s)
}

func (p *printer) resource(indent int, key string, r *written.Resource) {
	if len(r.Texts) == 1 {
		p.line(indent, "%s: %s", key, plain(r.Texts[0].Raw))
		return
	}
	p.line(indent, "%s:", key)
	for i := range r.Texts {
		p.line(indent+2, "- %s", plain(r.Texts[i].Raw))
	}
}

// block prints the resources of a block, which has no keys of its own.
func (p *printer) block(s *Spec) {
	p.line(4, "gpus: %d", s.Request.Min)
	if s.Request.Max > 0 {
		p.line(4, "gpu_memory: %s", units.FormatSize(s.Request.Memory))
		p.line(4, "max_util: %d", s.Request.MaxUtil)
		p.line(4, "share: %t", s.Request.Share)
	}
	p.line(4, "leftovers: wait")
	most := strconv.Itoa(s.Retry.Max)
	if s.Retry.Max < 0 {
		most = "forever"
	}
	p.line(4, "retry:")
	p.line(6, "max: %s", most)
	p.line(6, "delay: %s", units.FormatDuration(s.Retry.Delay))
	p.line(6, "backoff_after: %d", s.Retry.BackoffAfter)
	p.line(6, "backoff: %s", units.FormatDuration(s.Retry.Backoff))
}

func (p *printer) config(j *Job, c *written.Config) {
	if c == nil {
		return
	}
	p.line(4, "config:")
	p.line(6, "base: %s", strconv.Quote(c.Base.Raw))
	if c.Path != nil {
		p.line(6, "path: %s", strconv.Quote(c.Path.Raw))
	}
	if len(c.Sets) == 0 {
		return
	}
	p.line(6, "set:")
	for i := range c.Sets {
		s := &c.Sets[i]
		key := strings.Join(s.Path, ".")
		if s.Add || s.Place && p.b.lacks(j, c, s.Path[0]) {
			key = "+" + key
		}
		p.line(8, "%s: %s", strconv.Quote(key), value(s.Value.Raw, s.Tag))
	}
}

// lacks reports whether the base of a job's config has no such top-level key.
func (b *Batch) lacks(j *Job, c *written.Config, key string) bool {
	v := j.values()
	dir, err := j.Spec.text.Dir(b.Files[j.File].WorkDir, v)
	if err != nil {
		return false
	}
	path, err := expand.Absolute(dir, c.Base.Render(v))
	if err != nil {
		return false
	}
	base := b.bases[path]
	return base != nil && !base.Has(key)
}
