package jobspec

import (
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"hash/fnv"
	"maps"
	"regexp"
	"slices"
	"strings"

	"gpurun/gpu"
	"gpurun/jobspec/expand"
)

// recipe is the version of the rules below. Change it only together with code that still recognizes
// jobs recorded as done under older recipes.
//
// The key covers commands and args (with parameters filled in, but run-time variables left as is),
// parameters, env, shell, the values of the rendered config, and the work dir as written. If
// several jobs in the file are equal in all of these, it also covers each job's number among them.
// It does not cover name (unless a text uses {name}), resources, retries, log, needs, or the
// location of the file. docs/reference/jobfile.md documents this.
const recipe = "gpurun key 1"

// A digest is the input of a hash, encoded so that different lists of strings never have the same
// encoding.
type digest []byte

func (d digest) count(n int) digest { return binary.AppendUvarint(d, uint64(n)) }

func (d digest) str(s string) digest {
	return append(binary.BigEndian.AppendUint32(d, uint32(len(s))), s...)
}

// key returns the hash of what the job does when rendered with v. Identical jobs in a file are
// numbered, so that their keys differ.
func (p *proto) key(v *expand.Values) Key {
	d := make(digest, 0, 512).str(recipe).count(len(p.Commands))
	for _, c := range p.Commands {
		d = d.str(c.Render(v))
	}
	d = d.count(len(p.Args))
	for _, a := range p.Args {
		d = append(d.str(a.Key), a.Kind(v)).str(a.Value.Render(v))
	}
	params := slices.Clone(v.Params) // sorted by name, because their order in the file does not matter
	slices.SortFunc(params, func(a, b *Param) int { return strings.Compare(a.Name, b.Name) })
	d = d.count(len(params))
	for _, param := range params {
		d = d.str(param.Name).str(v.Param(param.Name).Text)
	}
	env := slices.Clone(p.Env)
	slices.SortFunc(env, func(a, b expand.Env) int { return strings.Compare(a.Name, b.Name) })
	d = d.count(len(env))
	for _, e := range env {
		d = d.str(e.Name).str(e.Value.Render(v))
	}
	d = d.count(len(p.Shell))
	for _, word := range p.Shell {
		d = d.str(word)
	}
	d = d.str(p.file.dirKey).str(p.WorkDir.Render(v))
	if p.Config != nil {
		sum := sha256.Sum256(digest{}.value(p.configValues(v)))
		d = append(d, sum[:]...)
	}
	sum := sha256.Sum256(d)
	key := Key(sum[:16])
	before := p.file.alike[key]
	p.file.alike[key]++
	if before > 0 {
		sum = sha256.Sum256(binary.AppendUvarint(append([]byte(recipe), key[:]...), uint64(before)))
		key = Key(sum[:16])
	}
	return key
}

// configValues returns the values in a job's copy of its config.
func (p *proto) configValues(v *expand.Values) any {
	c := p.Config
	at := *v
	var err error
	if at.WorkDir, err = p.Dir(p.file.workDir, v); err != nil || c.Bad {
		return nil // already reported
	}
	base, sets, problems := p.file.batch.open(c, &at, p.file.out.Note)
	var values any
	if len(problems) == 0 {
		values, problems = base.Values(sets)
	}
	c.Bad = len(problems) > 0
	for _, problem := range problems {
		problem.File = p.src.Path
		if problem.Line == 0 {
			problem.Line, problem.Col = c.Base.Line, c.Base.Col
		}
		p.file.out.Add(problem)
	}
	return values
}

// value encodes a config value by its meaning, not its spelling.
func (d digest) value(value any) digest {
	switch x := value.(type) {
	case map[string]any:
		d = append(d, 'm').count(len(x))
		for _, name := range slices.Sorted(maps.Keys(x)) {
			d = d.str(name).value(x[name])
		}
	case []any:
		d = append(d, 'l').count(len(x))
		for _, item := range x {
			d = d.value(item)
		}
	default:
		d = append(d, 's').str(fmt.Sprintf("%T %v", value, value))
	}
	return d
}

// templateOf returns a hash shared by jobs that differ only in their parameters. It covers the
// commands before parameters are filled in, the names of args, the shell, the work dir as written
// and the number of GPUs. It leaves out numbers and the values of args, because in files without
// parameters, jobs differ only in these.
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

// withoutNumbers replaces every number, such as 1e-05 or 0.1, with a placeholder.
func withoutNumbers(s string) string {
	is := func(at int, of string) bool { return at < len(s) && strings.IndexByte(of, s[at]) >= 0 }
	const digits = "0123456789"
	var out strings.Builder
	for i := 0; i < len(s); i++ {
		if !is(i, digits) {
			out.WriteByte(s[i])
			continue
		}
		out.WriteByte('#')
		for last := -1; last != i; { // i is the index of the number's last byte so far
			switch last = i; {
			case is(i+1, digits):
				i++
			case is(i+1, ".") && is(i+2, digits), is(i+1, "eE") && is(i+2, digits):
				i += 2
			case is(i+1, "eE") && is(i+2, "+-") && is(i+3, digits):
				i += 3
			}
		}
	}
	return out.String()
}

// SeedGroup returns a hash shared by jobs that differ only in their seeds, so that one job predicts
// the time and memory of the others. It covers the template, and the commands, args, parameters and
// config changes as written, except for seeds.
func (j *Job) SeedGroup() uint64 {
	return j.written(func(name, value string) (string, bool) {
		return seed.ReplaceAllString(value, "$1#"), !strings.Contains(strings.ToLower(name), "seed")
	}).sum64()
}

// written returns the hash input for a job as written: its template, and what take returns for each
// command, argument, parameter and config change. take drops a part by returning false.
func (j *Job) written(take func(name, value string) (string, bool)) digest {
	t := j.text()
	d := digest(binary.AppendUvarint(nil, j.Spec.Template))
	part := func(name, value string) {
		if value, ok := take(name, value); ok {
			d = d.str(name).str(value)
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
	return d
}

// seed matches a seed in text: --seed 42, seed=42, x_seed42.yaml.
var seed = regexp.MustCompile(`(?i)(seeds?["']?[-_=:, ]{0,3})[0-9]+`)

func (d digest) sum64() uint64 {
	h := fnv.New64a()
	_, _ = h.Write(d)
	return h.Sum64()
}
