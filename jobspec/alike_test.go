package jobspec

import (
	"crypto/sha256"
	"encoding/binary"
	"slices"
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
