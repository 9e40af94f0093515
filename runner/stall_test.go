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

// A job that prints nothing for too long is stalled, unless its output cannot be observed.
func TestSilentJobStallsUnlessOutputIsHidden(t *testing.T) {
	for name, tt := range map[string]struct {
		keys, want string
		gone       bool // remove the log
	}{
		"log":              {"", "a: stalled", false},
		"removed log":      {"", "a: succeeded", true},
		"discarded output": {"log: /dev/null", "a: succeeded", false},
		"discarded errors": {"stderr: /dev/null", "a: succeeded", false},
		"errors to a log":  {"stderr: err", "a: stalled", false},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				if tt.keys != "" {
					tt.keys = ", " + tt.keys
				}
				w := newTestRun(t, "jobs: [{name: a, run: x, gpus: 0, stall: {output: 1m}, on_stall: kill"+tt.keys+"}]\n", "", func(l engine.Launch) Play {
					for _, path := range []string{l.Stdout, l.Stderr} { // as an engine does
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
