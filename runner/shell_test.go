package runner

import (
	"os"
	"path/filepath"
	"reflect"
	"sync"
	"testing"

	"gpurun/runner/engine"
)

func TestDefaultShellStopsAtFirstFailure(t *testing.T) {
	dir := t.TempDir()
	bash := filepath.Join(dir, "bash")
	if err := os.WriteFile(bash, []byte("#!/bin/sh\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	var mu sync.Mutex
	got := map[string][]string{}
	w := newTestRun(t, `
jobs:
  - {name: a, run: "false | true", gpus: 0, env: {PATH: /nowhere}}
  - {name: b, run: x, gpus: 0, shell: [python3, -c]}
`, "", func(l engine.Launch) Play {
		mu.Lock()
		defer mu.Unlock()
		got[l.Job] = l.Shell
		return Play{}
	})
	w.Environ = []string{"PATH=relative:/nowhere:" + dir}
	w.run()
	mu.Lock()
	defer mu.Unlock()
	want := map[string][]string{"a": {bash, "-e", "-o", "pipefail", "-c"}, "b": {"python3", "-c"}}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
}
