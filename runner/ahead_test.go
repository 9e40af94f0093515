package runner

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"gpurun/runner/engine"
	"gpurun/runner/engine/enginetest"
	"gpurun/runner/sched"
	"gpurun/state"
)

func lasts(d time.Duration) func(engine.Launch) enginetest.Play {
	return func(engine.Launch) enginetest.Play { return enginetest.Play{For: d} }
}

// What is made ahead is what starts, and nothing is made twice or left over.
func TestMadeAhead(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, "settings: {max_concurrent: 2}\njobs:\n  - {name: 'j{i}', matrix: {i: 1..20}, run: 'echo {uni_id} {port}', gpus: 0}\n", "", lasts(time.Millisecond))
		r := w.run()
		if r.Final.Counts[state.Succeeded] != 20 {
			t.Fatalf("got %v", r.Final.Counts)
		}
		var ids []string
		ports := map[string]int{}
		for _, f := range w.memory.kinds(state.KindStart) {
			ids = append(ids, f.UniID)
			words := strings.Fields(f.Commands[0])
			if words[1] != f.UniID {
				t.Errorf("%s runs %q", f.UniID, f.Commands)
			}
			ports[words[2]]++
		}
		if slices.Sort(ids); w.memory.n != 20 || len(slices.Compact(ids)) != 20 || len(w.memory.gone) != 20 {
			t.Errorf("%d folders were made, %d used, %d given back, want 20 of each", w.memory.n, len(ids), len(w.memory.gone))
		}
		// The end of one and the start of the next are one write, with what came before.
		if most := 40; w.memory.writes > most {
			t.Errorf("%d writes for %d facts, want at most %d", w.memory.writes, len(w.memory.facts), most)
		}
		if len(ports) != 20 {
			t.Errorf("%d ports for 20 jobs: %v", len(ports), ports)
		}
	})
}

// What was made ahead of a long job is not used: the uni_id would lie about the time.
func TestMadeTooLongAgo(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, "settings: {max_concurrent: 1}\njobs:\n  - {name: a, run: x, gpus: 0}\n  - {name: b, run: x, gpus: 0}\n", "", lasts(time.Hour))
		r := w.run()
		starts := w.memory.kinds(state.KindStart)
		if r.Final.Counts[state.Succeeded] != 2 || len(starts) != 2 {
			t.Fatalf("got %v, %v", r.Final.Counts, starts)
		}
		if w.memory.n != 3 || starts[1].UniID != "u3" || len(w.memory.gone) != 3 {
			t.Errorf("%d folders, the second start is %s, %v given back", w.memory.n, starts[1].UniID, w.memory.gone)
		}
	})
}

// A run that is stopped gives back what it made ahead.
func TestMadeForNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, "settings: {max_concurrent: 1}\njobs:\n  - {name: a, run: x, gpus: 0}\n  - {name: b, run: x, gpus: 0}\n", "", lasts(time.Hour))
		time.AfterFunc(time.Minute, func() { w.stops <- sched.Stop{Drain: true, Why: "Ctrl-C"} })
		w.run()
		if w.memory.n != 2 || !slices.Contains(w.memory.gone, "u2") {
			t.Errorf("%d folders, %v given back", w.memory.n, w.memory.gone)
		}
	})
}

// What others can see is not touched ahead: a log that the job file names, a
// config file, inputs as they are at the start.
func TestNotMadeAhead(t *testing.T) {
	tests := []struct{ name, run, yaml string }{
		{"log", "x", "log: same.log"},
		{"inputs", "x", "inputs: [in]"},
		{"config", "'x {config}'", "config: {base: jobs.yaml, set: {settings.max_concurrent: 2}}"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				looked := false
				w := newWorld(t, fmt.Sprintf("settings: {max_concurrent: 1}\njobs:\n  - {name: a, run: x, gpus: 0}\n  - {name: b, run: %s, gpus: 0, %s}\n", tt.run, tt.yaml), "", lasts(time.Minute))
				dir := filepath.Dir(w.Batch.Files[0].Path)
				for _, name := range []string{"same.log", "in"} {
					if err := os.WriteFile(filepath.Join(dir, name), []byte("of a run before\n"), 0o666); err != nil {
						t.Fatal(err)
					}
				}
				before := tree(t, dir)
				time.AfterFunc(30*time.Second, func() {
					looked = true
					if got := slices.DeleteFunc(tree(t, dir), func(p string) bool { return strings.Contains(p, "attempts") || strings.Contains(p, "logs") }); !slices.Equal(got, before) {
						t.Errorf("while a runs: %q, before: %q", got, before)
					}
				})
				if r := w.run(); r.Final.Counts[state.Succeeded] != 2 || !looked {
					t.Errorf("got %v, looked %t", r.Final.Counts, looked)
				}
			})
		})
	}
}

func tree(t *testing.T, dir string) (paths []string) {
	t.Helper()
	err := filepath.WalkDir(dir, func(path string, _ os.DirEntry, err error) error {
		paths = append(paths, path)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return paths
}
