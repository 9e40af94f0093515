package local

import (
	"slices"
	"testing"
	"time"

	"gpurun/runner/engine/local/procs"
)

// A process that reuses the pid of one that is long gone is not part of the attempt, and
// neither is its session: they are neither followed nor ended.
func TestPIDReused(t *testing.T) {
	p := sleeper(t)
	earlier, none := p.ID, procs.ID{}
	earlier.Start -= 100
	for _, c := range []struct {
		name string
		root procs.ID
		want []procs.ID
	}{
		{"itself", p.ID, []procs.ID{p.ID}},
		{"one that had its pid before", earlier, nil},
		{"nobody", none, nil},
	} {
		var all census
		if got := all.tree("of no process", []procs.ID{c.root}, time.Now()); !slices.Equal(got, c.want) {
			t.Errorf("%s: got %v, want %v", c.name, got, c.want)
		}
	}
}
