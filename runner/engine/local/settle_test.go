package local

import (
	"os"
	"path/filepath"
	"reflect"
	"testing"

	"gpurun/runner/engine/procs"
)

// Which process an attempt began last, according to the markers that its keeper and
// later runners left.
func TestSettle(t *testing.T) {
	const began = "17 (sh) S 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 4711\n"
	p := procs.ID{PID: 17, Start: 4711}
	type result struct {
		Roots []procs.ID
		Last  procs.ID
		Void  bool
		Cut   bool
	}
	for _, c := range []struct {
		name    string
		markers map[string]string
		steps   int
		want    result
	}{
		{"never begun", nil, 1, result{Void: true}},
		{"made void before", map[string]string{"begun": "void\n"}, 1, result{Void: true}},
		{"the only command", map[string]string{"begun": began}, 1, result{[]procs.ID{p}, p, false, false}},
		{"the first of two", map[string]string{"begun": began}, 2, result{[]procs.ID{p}, p, false, false}},
		{"the first of nobody knows how many", map[string]string{"begun": began}, 0, result{[]procs.ID{p}, p, false, false}},
		// A runner was killed while voiding the second command, which therefore never began.
		{"an empty marker behind the last", map[string]string{"begun": began, "begun.2": ""}, 1, result{[]procs.ID{p}, p, false, false}},
		// Here it may be the second command's, which may run.
		{"an empty marker of the second", map[string]string{"begun": began, "begun.2": ""}, 2, result{[]procs.ID{p}, procs.ID{}, false, true}},
		{"both", map[string]string{"begun": "16 (sh) S 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 4700\n", "begun.2": began}, 2,
			result{[]procs.ID{{PID: 16, Start: 4700}, p}, p, false, false}},
	} {
		t.Run(c.name, func(t *testing.T) {
			dir := t.TempDir()
			for name, text := range c.markers {
				if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644); err != nil {
					t.Fatal(err)
				}
			}
			for range 2 { // the next runner finds what this one left
				var got result
				got.Roots, got.Last, got.Void, got.Cut = settle(dir, c.steps)
				if !reflect.DeepEqual(got, c.want) {
					t.Errorf("got %+v, want %+v", got, c.want)
				}
			}
		})
	}
}
