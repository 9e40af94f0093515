package gpu

import (
	"fmt"
	"math"
	"strconv"
	"strings"

	"github.com/dustin/go-humanize"
)

// Bytes is an amount of memory. Where documented, a negative value means unknown.
type Bytes int64

// These are binary units, as used by NVML and the kernel.
const (
	KiB Bytes = 1 << (10 * (iota + 1))
	MiB
	GiB
	TiB
)

var byteUnits = []struct {
	name string
	size Bytes
}{
	// Longer names come first, because "8GiB" must not be parsed as "8Gi" bytes.
	{"TiB", TiB}, {"GiB", GiB}, {"MiB", MiB}, {"KiB", KiB},
	{"TB", 1e12}, {"GB", 1e9}, {"MB", 1e6}, {"kB", 1e3}, {"KB", 1e3},
	{"B", 1},
}

// ParseBytes parses "8GiB", "8000MiB", "1.5GiB" or the decimal "8GB". It refuses negative sizes, sizes
// over 1 EiB, and bare numbers, whose unit differs between tools.
func ParseBytes(s string) (Bytes, error) {
	s = strings.TrimSpace(s)
	for _, u := range byteUnits {
		num, ok := strings.CutSuffix(s, u.name)
		if !ok {
			continue
		}
		f, err := strconv.ParseFloat(strings.TrimSpace(num), 64)
		if err != nil || math.IsNaN(f) || math.IsInf(f, 0) || strings.ContainsAny(num, "xXpP_") {
			return 0, fmt.Errorf("invalid size %q (try 8GiB)", s)
		}
		if f < 0 {
			return 0, fmt.Errorf("size %q is negative", s)
		}
		if f*float64(u.size) > 1<<60 {
			return 0, fmt.Errorf("size %q is more than any machine has", s)
		}
		return Bytes(math.Round(f * float64(u.size))), nil
	}
	if _, err := strconv.ParseFloat(s, 64); err == nil {
		return 0, fmt.Errorf("size %q has no unit (try %sMiB or %sGiB)", s, s, s)
	}
	return 0, fmt.Errorf("invalid size %q (try 8GiB)", s)
}

// String formats b exactly, in the largest binary unit that divides it
// ("8GiB", "8000MiB"). ParseBytes reads it back.
func (b Bytes) String() string {
	if b < 0 {
		return "unknown"
	}
	for _, u := range byteUnits[:4] {
		if b != 0 && b%u.size == 0 {
			return strconv.FormatInt(int64(b/u.size), 10) + u.name
		}
	}
	return strconv.FormatInt(int64(b), 10) + "B"
}

// Asked formats a requested amount: rounded if that is exact ("16 GiB"), otherwise in the shortest
// exact form, which is usually how a user wrote it ("8000MiB", "8GB").
func (b Bytes) Asked() string {
	round := b.Round()
	if exact, err := ParseBytes(round); err == nil && exact == b {
		return round
	}
	best := ""
	for _, u := range byteUnits {
		if u.size < 1e6 || b <= 0 || b%u.size != 0 {
			continue
		}
		if s := strconv.FormatInt(int64(b/u.size), 10) + u.name; best == "" || len(s) < len(best) {
			best = s
		}
	}
	if best == "" {
		return round // a computed number, such as 90% of a GPU, not one that a user wrote
	}
	return best
}

// Round formats b in rounded units: "37 GiB", "1.5 GiB", "512 MiB".
func (b Bytes) Round() string {
	if b < 0 {
		return "unknown"
	}
	return strings.Replace(humanize.IBytes(uint64(b)), ".0 ", " ", 1)
}

// Ample returns the amount to request for a peak of b: at least 10% and at least 512 MiB more,
// rounded up to a multiple of 256 MiB.
func (b Bytes) Ample() Bytes {
	const step = 256 * MiB
	return (b + max(b/10, 512*MiB) + step - 1) / step * step
}
