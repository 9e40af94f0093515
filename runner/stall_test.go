package runner

import (
	"os"
	"path/filepath"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"gpurun/runner/engine"
)

// A job without output for too long has stalled, unless its output cannot be observed.
func TestSilentJobStallsUnlessOutputIsHidden(t *testing.T) {
	for name, tt := range map[string]struct {
		keys, want string
		gone       bool // the log is removed
	}{
		"a log":           {"", "a: stalled", false},
		"a log removed":   {"", "a: succeeded", true},
		"nowhere":         {"log: /dev/null", "a: succeeded", false},
		"errors nowhere":  {"stderr: /dev/null", "a: succeeded", false},
		"errors to a log": {"stderr: err", "a: stalled", false},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				if tt.keys != "" {
					tt.keys = ", " + tt.keys
				}
				w := newTestRun(t, "jobs: [{name: a, run: x, gpus: 0, stall: {output: 1m}, on_stall: kill"+tt.keys+"}]\n", "", func(l engine.Launch) Play {
					for _, path := range []string{l.Stdout, l.Stderr} { // the engine opens them
						_ = os.MkdirAll(filepath.Dir(path), 0o755)
						f, err := os.OpenFile(path, os.O_CREATE|os.O_WRONLY, 0o644)
						if err != nil {
							t.Error(err)
						}
						f.Close()
					}
					if tt.gone {
						os.Remove(l.Stdout)
					}
					return Play{For: time.Hour}
				})
				w.run()
				if got := w.memory.ends(); !slices.Equal(got, []string{tt.want}) {
					t.Errorf("got %q, want %q", got, tt.want)
				}
			})
		})
	}
}
