package jobspec

import (
	"crypto/sha256"
	"encoding/binary"
	"math/big"
	"reflect"
	"slices"
	"strings"
	"testing"
)

// Enough jobs for the fast sort, with hashes that collide.
func TestRepeats(t *testing.T) {
	for _, n := range []int{0, 1, 7, 100, 5000} {
		// Every number in 0…n/2 occurs at least twice; hashes take only a few values.
		value := func(i int) int { return i * i % (n/2 + 1) }
		for name, hash := range map[string]func(i int) uint32{
			"good": func(i int) uint32 { return uint32(value(i)) * 0x9e3779b1 },
			"poor": func(i int) uint32 { return uint32(value(i)%5) << 29 },
		} {
			list := byHash(n, hash)
			if !slices.IsSorted(list) || len(list) != n {
				t.Fatalf("%d, %s: not sorted", n, name)
			}
			type again struct{ first, job, count int }
			var got, want []again
			repeats(list, func(a, b int32) bool { return value(int(a)) == value(int(b)) }, func(first, job int32, count int) bool {
				got = append(got, again{int(first), int(job), count})
				return true
			})
			slices.SortFunc(got, func(a, b again) int { return a.job - b.job })
			seen := map[int][]int{}
			for i := range n {
				if before := seen[value(i)]; len(before) > 0 {
					want = append(want, again{before[0], i, len(before)})
				}
				seen[value(i)] = append(seen[value(i)], i)
			}
			if !slices.Equal(got, want) {
				t.Errorf("%d, %s: got %v, want %v", n, name, got, want)
			}
			for i := range n {
				if id, ok := lookUp(list, hash(i), func(o int32) bool { return int(o) == i }); !ok || int(id) != i {
					t.Errorf("%d, %s: looked for %d, got %d, %v", n, name, i, id, ok)
				}
			}
			if _, ok := lookUp(list, 12345, func(int32) bool { return true }); ok {
				t.Errorf("%d, %s: found a job that does not exist", n, name)
			}
		}
	}
}

// The fast path for whole numbers spells them as the decimal path does.
func TestWholeRanges(t *testing.T) {
	for _, s := range []string{
		"0..3", "3..0", "-2..2", "5..5", "08..11", "-1..010", "010..-010..5", "-05..00..5", "0..100..25", "100..0..50", "7..1..3",
		"9223372036854775805..9223372036854775807", "-9223372036854775808..-9223372036854775807",
		"-9223372036854775808..9223372036854775807..18446744073709551615", "9223372036854775807..9223372036854775809",
	} {
		got, err := expandRange(s, "n")
		if err != nil {
			t.Errorf("%s: %v", s, err)
			continue
		}
		if want := slowRange(s); !reflect.DeepEqual(texts1(got), want) {
			t.Errorf("%s: got %v, want %v", s, texts1(got), want)
		}
		if got[0].Name != "n" || got[0].Tag != "!!int" {
			t.Errorf("%s: got %+v", s, got[0])
		}
	}
}

func texts1(list []Param) []string {
	var out []string
	for _, p := range list {
		out = append(out, p.Text)
	}
	return out
}

// slowRange counts in fractions and stops at the end.
func slowRange(s string) []string {
	m := rangeForm.FindStringSubmatch(s)
	from, to, step := decimal(m[1]), decimal(m[2]), big.NewRat(1, 1)
	if m[3] != "" {
		step.Abs(decimal(m[3]))
	}
	if to.Cmp(from) < 0 {
		step.Neg(step)
	}
	width := 0
	if padded(m[1]) || padded(m[2]) {
		width = max(len(strings.TrimPrefix(m[1], "-")), len(strings.TrimPrefix(m[2], "-")))
	}
	var out []string
	for ; ; from.Add(from, step) {
		out = append(out, spell(from, 0, false, width))
		if from.Cmp(to) == 0 {
			return out
		}
	}
}

// Jobs that do the same are distinguished by their count within the file. This is part
// of the key's recipe, which no later version may change.
func TestEqualKeys(t *testing.T) {
	b := mustLoad(t, writeJobFile(t, "jobs.yaml", "jobs:\n- {name: \"a{i}\", matrix: {i: 1..50}, run: x}\n- {name: b, run: x}\n- {name: c, run: x}\n- {name: d, run: x}\n"))
	first := b.Jobs[50].Key
	for n, j := range b.Jobs[51:] {
		sum := sha256.Sum256(binary.AppendUvarint(append([]byte(recipe), first[:]...), uint64(n+1)))
		if want := Key(sum[:16]); j.Key != want {
			t.Errorf("%s has the key %s, want %s", j.Name, j.Key, want)
		}
	}
}
