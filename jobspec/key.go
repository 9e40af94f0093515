package jobspec

import (
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"slices"
	"sort"
	"strings"

	"gpurun/jobspec/expand"
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

// A keyer makes the keys of one proto's jobs, reusing one buffer.
type keyer struct {
	*fileJobs
	proto  *proto
	buf    []byte
	byName []int // parameters ordered by name, for jobs that have the usual set
	env    []int
	count  [4]byte
}

// makeKeys makes the keys of one proto's jobs. Jobs that do the same get equal keys;
// tellApart separates them once all jobs of the file exist.
func (f *fileJobs) makeKeys(p *proto, jobs []Job) {
	if p.config == nil {
		if len(f.out.Problems) == 0 {
			inParts(len(jobs), func(from, to int) { f.keysOf(p, jobs[from:to]) })
		}
		return
	}
	k := keyer{fileJobs: f, proto: p}
	var v expand.Values
	for i := range jobs {
		v = p.matrix.Values(jobs[i].combo, jobs[i].Name, v.Params[:0])
		if len(f.out.Problems) == 0 {
			jobs[i].Key = k.key(&v)
		} else if !p.config.bad {
			k.configHash(p, &v) // for the problems it reports
		}
	}
}

// keysOf makes keys that do not depend on files. It is safe for concurrent use.
func (f *fileJobs) keysOf(p *proto, jobs []Job) {
	k := keyer{fileJobs: f, proto: p}
	var v expand.Values
	for i := range jobs {
		v = p.matrix.Values(jobs[i].combo, jobs[i].Name, v.Params[:0])
		jobs[i].Key = k.key(&v)
	}
}

// tellApart numbers jobs of the file that do the same, so that their keys differ.
func (f *fileJobs) tellApart() {
	if len(f.out.Problems) > 0 {
		return
	}
	jobs := f.batch.Jobs[f.batch.Files[f.index].First:]
	list := byHash(len(jobs), func(i int) uint32 { return binary.BigEndian.Uint32(jobs[i].Key[:]) })
	repeats(list, func(a, b int32) bool { return jobs[a].Key == jobs[b].Key }, func(first, again int32, count int) bool {
		key := jobs[first].Key
		sum := sha256.Sum256(binary.AppendUvarint(append([]byte(recipe), key[:]...), uint64(count)))
		jobs[again].Key = Key(sum[:16])
		return true
	})
}

// key hashes what the job rendered by v does.
func (k *keyer) key(v *expand.Values) Key {
	p := k.proto
	k.buf = appendString(k.buf[:0], recipe)
	k.buf = binary.AppendUvarint(k.buf, uint64(len(p.commands)))
	for i := range p.commands {
		k.text(&p.commands[i], v)
	}
	k.buf = binary.AppendUvarint(k.buf, uint64(len(p.args)))
	for i := range p.args {
		k.buf = appendString(k.buf, p.args[i].key)
		k.buf = append(k.buf, p.args[i].kind(v))
		k.text(&p.args[i].value, v)
	}
	k.params(v.Resolved())
	k.environment(v)
	k.buf = binary.AppendUvarint(k.buf, uint64(len(p.shell)))
	for _, word := range p.shell {
		k.buf = appendString(k.buf, word)
	}
	k.buf = appendString(k.buf, k.dirKey)
	if p.workDir != nil {
		k.text(p.workDir, v)
	} else {
		k.buf = appendString(k.buf, "")
	}
	if p.config != nil {
		k.buf = append(k.buf, k.configHash(p, v)...)
	}
	sum := sha256.Sum256(k.buf)
	return Key(sum[:16])
}

// appendString appends s unambiguously: different lists of strings never look alike.
func appendString(buf []byte, s string) []byte {
	return append(binary.BigEndian.AppendUint32(buf, uint32(len(s))), s...)
}

// text appends a rendered text in the encoding of appendString.
func (k *keyer) text(t *expand.Text, v *expand.Values) {
	at := len(k.buf)
	k.buf = t.Append(append(k.buf, k.count[:]...), v)
	binary.BigEndian.PutUint32(k.buf[at:], uint32(len(k.buf)-at-4))
}

// params appends parameters by name: their order in the file does not matter.
func (k *keyer) params(list []Param) {
	order := k.byName
	if len(order) != len(list) || !sort.SliceIsSorted(order, func(a, b int) bool { return list[order[a]].Name < list[order[b]].Name }) {
		order = make([]int, len(list))
		for i := range order {
			order[i] = i
		}
		slices.SortFunc(order, func(a, b int) int { return strings.Compare(list[a].Name, list[b].Name) })
		k.byName = order
	}
	k.buf = binary.AppendUvarint(k.buf, uint64(len(list)))
	for _, i := range order {
		k.buf = appendString(appendString(k.buf, list[i].Name), list[i].Text)
	}
}

func (k *keyer) environment(v *expand.Values) {
	env := k.proto.env
	if len(k.env) != len(env) {
		k.env = make([]int, len(env))
		for i := range k.env {
			k.env[i] = i
		}
		slices.SortFunc(k.env, func(a, b int) int { return strings.Compare(env[a].name, env[b].name) })
	}
	k.buf = binary.AppendUvarint(k.buf, uint64(len(env)))
	for _, i := range k.env {
		k.buf = appendString(k.buf, env[i].name)
		k.text(&env[i].value, v)
	}
}

// configHash returns the hash of the rendered config's parsed values. Equal changes
// to one base are parsed once.
func (k *keyer) configHash(p *proto, v *expand.Values) []byte {
	key := p.config.base.Append(nil, v)
	key = append(key, 0)
	if p.workDir != nil {
		key = append(p.workDir.Append(key, v), 0)
	}
	for i := range p.config.sets {
		key = p.config.sets[i].value.Append(append(appendString(key, strings.Join(p.config.sets[i].path, "\x00")), p.config.sets[i].kind(v)...), v)
		key = append(key, 0)
	}
	whole := fmt.Sprintf("%d\x00%p\x00%s", k.index, p, key)
	if h, ok := k.configKeys[whole]; ok {
		return h
	}
	if h := k.quickHash(p, v); h != nil {
		return h
	}
	values, problems := k.configValuesOf(p, v)
	if len(problems) == 0 {
		k.learn(p, v, values)
	}
	p.config.bad = p.config.bad || len(problems) > 0
	for _, pr := range problems {
		k.out.Add(pr)
	}
	sum := sha256.Sum256(appendValue(nil, values))
	k.configKeys[whole] = sum[:]
	return sum[:]
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
