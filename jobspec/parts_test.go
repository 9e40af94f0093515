package jobspec

import (
	"slices"
	"testing"
)

func TestInParts(t *testing.T) {
	for _, n := range []int{0, 1, 4095, 4096, 50_001} {
		seen := make([]byte, n)
		inParts(n, func(from, to int) {
			for i := from; i < to; i++ {
				seen[i]++
			}
		})
		if i := slices.IndexFunc(seen, func(b byte) bool { return b != 1 }); i >= 0 {
			t.Errorf("of %d, %d was visited %d times", n, i, seen[i])
		}
	}
	defer func() {
		if p := recover(); p != "bug" {
			t.Errorf("got the panic %v, want bug", p)
		}
	}()
	inParts(100_000, func(from, _ int) {
		if from > 0 {
			panic("bug")
		}
	})
	panic("bug") // with one CPU there is a single part
}
