package jobspec

import (
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"hash/fnv"
	"regexp"
	"slices"
	"strings"

	"gpurun/gpu"
	"gpurun/jobspec/expand"
	"gpurun/jobspec/written"
)

// recipe is the version of the key. Change it only together with code that still
// recognizes what older recipes recorded as done.
//
// The key covers commands and args with parameters put in and run-time variables left
// as names, parameters, env, shell, the values of the rendered config, the work dir
// as written and, for jobs equal in all this, their number within the file. It does
// not cover name (unless a text uses {name}), resources, retries, log, needs, or the
// location of the file. docs/jobfile.md tells users so.
const recipe = "gpurun key 1"

// A keyer makes the keys of one proto's jobs, reusing its buffers.
type keyer struct {
	*fileJobs
	proto  *proto
	buf    []byte
	params []Param
	env    []written.Env // by name
}

func newKeyer(f *fileJobs, p *proto) *keyer {
	k := &keyer{fileJobs: f, proto: p, env: slices.Clone(p.Env)}
	slices.SortFunc(k.env, func(a, b written.Env) int { return strings.Compare(a.Name, b.Name) })
	return k
}

// key hashes what the job rendered by v does. Jobs of the file that do the same are
// numbered, so that their keys differ.
func (k *keyer) key(v *expand.Values) Key {
	p := k.proto
	k.buf = appendString(k.buf[:0], recipe)
	k.count(len(p.Commands))
	for _, c := range p.Commands {
		k.text(c, v)
	}
	k.count(len(p.Args))
	for _, a := range p.Args {
		k.buf = appendString(k.buf, a.Key)
		k.buf = append(k.buf, a.Kind(v))
		k.text(a.Value, v)
	}
	k.params = v.Resolved() // by name: their order in the file does not matter
	slices.SortFunc(k.params, func(a, b Param) int { return strings.Compare(a.Name, b.Name) })
	k.count(len(k.params))
	for _, param := range k.params {
		k.buf = appendString(appendString(k.buf, param.Name), param.Text)
	}
	k.count(len(k.env))
	for _, e := range k.env {
		k.buf = appendString(k.buf, e.Name)
		k.text(e.Value, v)
	}
	k.count(len(p.Shell))
	for _, word := range p.Shell {
		k.buf = appendString(k.buf, word)
	}
	k.buf = appendString(k.buf, k.dirKey)
	k.text(p.WorkDir, v)
	if p.Config != nil {
		sum := sha256.Sum256(appendValue(nil, k.config(v)))
		k.buf = append(k.buf, sum[:]...)
	}
	sum := sha256.Sum256(k.buf)
	key := Key(sum[:16])
	before := k.alike[key]
	k.alike[key]++
	if before > 0 {
		sum = sha256.Sum256(binary.AppendUvarint(append([]byte(recipe), key[:]...), uint64(before)))
		key = Key(sum[:16])
	}
	return key
}

func (k *keyer) count(n int) { k.buf = binary.AppendUvarint(k.buf, uint64(n)) }

func (k *keyer) text(t *expand.Text, v *expand.Values) { k.buf = appendString(k.buf, t.Render(v)) }

// config returns the values of a job's copy of its config.
func (k *keyer) config(v *expand.Values) any {
	c := k.proto.Config
	at := *v
	var err error
	if at.WorkDir, err = k.proto.Dir(k.workDir, v); err != nil || c.Bad {
		return nil // has been reported
	}
	base, sets, problems := k.batch.open(c, &at)
	var values any
	if len(problems) == 0 {
		values, problems = base.Values(sets)
	}
	c.Bad = len(problems) > 0
	for _, problem := range problems {
		problem.File = k.proto.src.Path
		if problem.Line == 0 {
			problem.Line, problem.Col = c.Base.Line, c.Base.Col
		}
		k.out.Add(problem)
	}
	return values
}

// appendString appends s unambiguously: different lists of strings never look alike.
func appendString(buf []byte, s string) []byte {
	return append(binary.BigEndian.AppendUint32(buf, uint32(len(s))), s...)
}

// appendValue encodes parsed values by meaning alone.
func appendValue(buf []byte, value any) []byte {
	switch x := value.(type) {
	case map[string]any:
		names := make([]string, 0, len(x))
		for n := range x {
			names = append(names, n)
		}
		slices.Sort(names)
		buf = binary.AppendUvarint(append(buf, 'm'), uint64(len(names)))
		for _, n := range names {
			buf = appendValue(appendString(buf, n), x[n])
		}
		return buf
	case map[any]any:
		plain := make(map[string]any, len(x))
		for n, v := range x {
			plain[fmt.Sprintf("%T %v", n, n)] = v
		}
		return appendValue(buf, plain)
	case []any:
		buf = binary.AppendUvarint(append(buf, 'l'), uint64(len(x)))
		for _, item := range x {
			buf = appendValue(buf, item)
		}
		return buf
	}
	return appendString(append(buf, 's'), fmt.Sprintf("%T %v", value, value))
}

// familyOf returns a hash shared by jobs that differ only in parameters. It covers
// the commands before values are put in, the names of args, the shell, the work dir
// as written and the number of GPUs. Files without parameters write them out, mostly
// as numbers, so numbers and the values of args are not part of it.
func (p *proto) familyOf(r gpu.Request) uint64 {
	var b []byte
	for _, c := range p.Commands {
		b = appendString(b, withoutNumbers(c.Raw))
	}
	b = append(b, 0)
	for _, a := range p.Args {
		b = appendString(b, a.Key)
	}
	b = append(b, 0)
	for _, word := range p.Shell {
		b = appendString(b, word)
	}
	b = append(b, 0)
	b = appendString(b, p.file.dirKey)
	if p.WorkDir != nil {
		b = appendString(b, withoutNumbers(p.WorkDir.Raw))
	}
	b = binary.AppendVarint(binary.AppendVarint(b, int64(r.Min)), int64(r.Max))
	h := fnv.New64a()
	_, _ = h.Write(b)
	return h.Sum64()
}

// number matches 1e-05, 0.1 and the like.
var number = regexp.MustCompile(`[0-9](?:\.?[0-9]|[eE][-+]?[0-9])*`)

// withoutNumbers replaces every number by one placeholder.
func withoutNumbers(s string) string { return number.ReplaceAllString(s, "#") }
