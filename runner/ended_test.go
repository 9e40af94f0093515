package runner

import (
	"os"
	"path/filepath"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"gpurun/runner/codecopy"
	"gpurun/runner/engine"
	"gpurun/state"
	"gpurun/state/schema"
)

// atEnd calls a function at the end of each attempt.
type atEnd func(f state.Fact)

func (at atEnd) Fact(_ int, f state.Fact) {
	if f.Kind == state.KindEnd {
		at(f)
	}
}
func (atEnd) Snapshot(*schema.Status) {}

// Files written on a cluster node may appear late on this host. A successful job ends once its
// output is visible, even if that output is in a code copy that another job still uses.
func TestSuccessWaitsForLateOutput(t *testing.T) {
	for _, tt := range []struct {
		name    string
		places  bool
		exit    int
		late    time.Duration
		want    state.Phase
		after   time.Duration
		brought bool
	}{
		{"late", true, 0, 29500 * time.Millisecond, state.Succeeded, 31 * time.Second, true},
		{"too late", true, 0, time.Minute, state.Failed, 41 * time.Second, false},
		{"failed", true, 1, time.Minute, state.Failed, time.Second, false},
		{"on this host", false, 0, time.Minute, state.Failed, time.Second, false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Setenv("GIT_CEILING_DIRECTORIES", "/")
			synctest.Test(t, func(t *testing.T) {
				var home, copied string
				w := newTestRun(t, "jobs: [{name: a, run: x, gpus: 0, outputs: [model.pt]}, {name: b, run: x, gpus: 0}]\n", "", func(l engine.Launch) Play {
					if l.Job == "b" {
						return Play{For: 5 * time.Minute}
					}
					time.AfterFunc(time.Second+tt.late, func() {
						if err := os.WriteFile(copied, nil, 0o644); err != nil {
							t.Error(err)
						}
					})
					return Play{For: time.Second, Exit: tt.exit}
				})
				tree, err := codecopy.Take(t.Context(), codecopy.Options{
					WorkDir: w.memory.dir, State: filepath.Join(w.memory.dir, ".gpurun"), Folder: filepath.Join(w.memory.dir, ".gpurun", "snapshots"), Name: "now",
				})
				if err != nil {
					t.Fatal(err)
				}
				home = filepath.Join(w.memory.dir, "model.pt")
				copied = tree.Map(home)
				w.Code, w.Does = []*codecopy.Tree{tree}, engine.Abilities{Name: "sim", Places: tt.places}
				began := time.Now()
				w.Sinks = []Sink{atEnd(func(f state.Fact) {
					_, err := os.Stat(home)
					if took := time.Since(began); f.Job == "a" && (f.State != tt.want || took != tt.after || (err == nil) != tt.brought) {
						t.Errorf("got %s after %v, want %s after %v; output in the work dir: %v", f.State, took, tt.want, tt.after, err)
					}
				})}
				w.run()
				if len(w.memory.ends()) != 2 || !slices.Contains(w.memory.ends(), "a: "+string(tt.want)) {
					t.Errorf("got %q", w.memory.ends())
				}
			})
		})
	}
}
