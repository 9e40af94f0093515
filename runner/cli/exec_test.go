package cli

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"gpurun/runner/engine/local/timerslack"
)

// The command of gpurun exec has the timers that gpurun was started with, not the
// late ones of gpurun's own.
func TestTimersOfExec(t *testing.T) {
	own, err := os.ReadFile("/proc/self/timerslack_ns")
	if err != nil {
		t.Skip(err)
	}
	want := strings.TrimSpace(string(own))
	if n := timerslack.Original(); n > 0 {
		want = fmt.Sprint(n)
	}
	out := filepath.Join(t.TempDir(), "out")
	argv := []string{"sh", "-c", "cat /proc/self/timerslack_ns >" + out}
	if err := new(app).foreground("/bin/sh", argv, os.Environ(), func(int) {}); err != nil {
		t.Fatal(err)
	}
	got, err := os.ReadFile(out)
	if err != nil || strings.TrimSpace(string(got)) != want {
		t.Errorf("got %q, %v, want %s ns", got, err, want)
	}
}
