package jobspec

import (
	"encoding/binary"
	"hash/fnv"

	"gpurun/gpu"
)

// familyOf returns a hash shared by jobs that differ only in parameters. It covers
// the commands before values are put in, the names of args, the shell, the work dir
// as written and the number of GPUs. Files without parameters write them out, mostly
// as numbers, so numbers and the values of args are not part of it.
func (p *proto) familyOf(r gpu.Request) uint64 {
	var b []byte
	for i := range p.Commands {
		b = appendString(b, withoutNumbers(p.Commands[i].Raw))
	}
	b = append(b, 0)
	for i := range p.Args {
		b = appendString(b, p.Args[i].Key)
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

// withoutNumbers replaces every number, such as 1e-05 or 0.1, by one placeholder.
func withoutNumbers(s string) string {
	out := make([]byte, 0, len(s))
	for i := 0; i < len(s); {
		if !digit(s[i]) {
			out = append(out, s[i])
			i++
			continue
		}
		out = append(out, '#')
		for i < len(s) && digit(s[i]) {
			i++
			switch rest := s[i:]; {
			case len(rest) > 1 && rest[0] == '.' && digit(rest[1]):
				i++
			case len(rest) > 1 && (rest[0] == 'e' || rest[0] == 'E') && digit(rest[1]):
				i++
			case len(rest) > 2 && (rest[0] == 'e' || rest[0] == 'E') && (rest[1] == '-' || rest[1] == '+') && digit(rest[2]):
				i += 2
			}
		}
	}
	return string(out)
}

func digit(c byte) bool { return c >= '0' && c <= '9' }
