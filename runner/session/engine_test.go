package session

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"gpurun/jobspec"
	"gpurun/runner"
	"gpurun/runner/sched"
)

func TestReloadChecksClusterAbilities(t *testing.T) {
	path := filepath.Join(t.TempDir(), "jobs.yaml")
	if err := os.WriteFile(path, []byte("settings: {engine: slurm}\njobs: [{name: a, run: x}, {name: b, run: x, gpu_ids: 1}]\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	b, err := jobspec.Load([]string{path}, jobspec.Options{})
	if err != nil {
		t.Fatal(err)
	}
	r := &Run{Config: Config{Summed: func(err error) (string, []string) { return "", []string{err.Error()} }, Source: &GPUs{}}, Batch: b, opts: sched.Options{Elsewhere: true}}
	_, err = r.ruler(b, b, func(int) bool { return true })
	m := (*runner.Mistake)(nil)
	if !errors.As(err, &m) || !strings.Contains(strings.Join(m.Lines, "\n"), "b: gpu_ids has no equivalent on slurm") {
		t.Errorf("got %v, want a mistake about gpu_ids of b", err)
	}
	if _, err := r.ruler(b, b, func(id int) bool { return id == 0 }); err != nil {
		t.Errorf("without the unsupported job: %v", err)
	}
}
