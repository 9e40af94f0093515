package jobspec

import (
	"encoding/binary"
	"hash/fnv"
	"regexp"
	"strings"

	"gpurun/gpu"
)

// templateOf returns a hash shared by jobs that differ only in parameters. It covers
// the commands before values are put in, the names of args, the shell, the work dir
// as written and the number of GPUs. Files without parameters write them out, mostly
// as numbers, so numbers and the values of args are not part of it.
func (p *proto) templateOf(r gpu.Request) uint64 {
	var d digest
	for _, c := range p.Commands {
		d = d.str(withoutNumbers(c.Raw))
	}
	d = d.count(0)
	for _, a := range p.Args {
		d = d.str(a.Key)
	}
	d = d.count(0)
	for _, word := range p.Shell {
		d = d.str(word)
	}
	d = d.count(0).str(p.file.dirKey)
	if p.WorkDir != nil {
		d = d.str(withoutNumbers(p.WorkDir.Raw))
	}
	d = binary.AppendVarint(binary.AppendVarint(d, int64(r.Min)), int64(r.Max))
	return d.sum64()
}

// number matches 1e-05, 0.1 and the like.
var number = regexp.MustCompile(`[0-9](?:\.?[0-9]|[eE][-+]?[0-9])*`)

// withoutNumbers replaces every number by one placeholder.
func withoutNumbers(s string) string { return number.ReplaceAllString(s, "#") }

// Family returns a hash shared by jobs that differ only in their seeds: what one of them
// took, the next will take. It covers the template with its numbers, and what parameters,
// args and changes to the config are, all as written, except for seeds.
func (j *Job) Family() uint64 {
	t := j.Spec.text
	if t == nil {
		return j.Spec.Template
	}
	d := digest(binary.AppendUvarint(nil, j.Spec.Template))
	part := func(name, value string) {
		if !strings.Contains(strings.ToLower(name), "seed") {
			d = d.str(name).str(seed.ReplaceAllString(value, "$1#"))
		}
	}
	for _, c := range t.Commands {
		part("", c.Raw)
	}
	d = d.count(0)
	for _, a := range t.Args {
		part(a.Key, a.Value.Raw)
	}
	d = d.count(0)
	for _, p := range j.values().Params {
		part(p.Name, p.Text)
	}
	if c := t.Config; c != nil {
		part("", c.Base.Raw)
		for _, s := range c.Sets {
			part(strings.Join(s.Path, "."), s.Value.Raw)
		}
	}
	return d.sum64()
}

// seed matches a seed that is written out: --seed 42, seed=42, x_seed42.yaml.
var seed = regexp.MustCompile(`(?i)(seeds?["']?[-_=:, ]{0,3})[0-9]+`)

func (d digest) sum64() uint64 {
	h := fnv.New64a()
	_, _ = h.Write(d)
	return h.Sum64()
}
