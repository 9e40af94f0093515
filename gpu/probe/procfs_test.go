package probe

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"gpurun/gpu"
)

// procDir creates a /proc in the PID namespace ns with one process: PID 77 of root, with the given
// files open.
func procDir(t *testing.T, ns string, open ...string) string {
	t.Helper()
	proc := t.TempDir()
	for _, dir := range []string{"self/ns", "77/fd"} {
		if err := os.MkdirAll(filepath.Join(proc, dir), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Symlink(ns, filepath.Join(proc, "self/ns/pid")); err != nil {
		t.Fatal(err)
	}
	for i, target := range open {
		if err := os.Symlink(target, filepath.Join(proc, "77/fd", string(rune('0'+i)))); err != nil {
			t.Fatal(err)
		}
	}
	status := "Name:\tpython3\nUmask:\t0022\nUid:\t0\t1\t2\t3\n"
	if err := os.WriteFile(filepath.Join(proc, "77/status"), []byte(status), 0o644); err != nil {
		t.Fatal(err)
	}
	stat := "77 (python3) S 1 77 77 0 -1 4194304 0 0 0 0 0 0 0 0 20 0 1 0 250 0 0 0 0 0\n" // field 22 is its start, in ticks
	if err := os.WriteFile(filepath.Join(proc, "77/stat"), []byte(stat), 0o644); err != nil {
		t.Fatal(err)
	}
	return proc
}

func TestOwnerOfAGPUProcess(t *testing.T) {
	known := gpu.Process{PID: 77, UID: 0, User: "root", Command: "python3", Start: 2500 * time.Millisecond}
	inside := known
	inside.Doubtful = true
	tests := []struct {
		name string
		proc string
		pid  int
		want gpu.Process
	}{
		{"visible", procDir(t, hostPIDNS), 77, known},
		{"hidden", procDir(t, hostPIDNS), 78, gpu.Process{PID: 78, UID: -1}},
		{"another process with the same PID", procDir(t, "pid:[4026532000]", "/dev/null"), 77, gpu.Process{PID: 77, UID: -1, Doubtful: true}},
		{"in a container, with a GPU open", procDir(t, "pid:[4026532000]", "/dev/null", "/dev/nvidia0"), 77, inside},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got := gpu.Process{PID: tt.pid}
			newOwners(tt.proc).find(&got)
			if got != tt.want {
				t.Errorf("got %+v, want %+v", got, tt.want)
			}
		})
	}
}
