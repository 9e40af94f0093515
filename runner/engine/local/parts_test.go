package local

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"gpurun/runner/engine/local/procs"
	"gpurun/state/host"
)

func TestOOMCounter(t *testing.T) {
	path := filepath.Join(t.TempDir(), "memory.events")
	write := func(s string) {
		if err := os.WriteFile(path, []byte(s), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	c := oomCounter{path: path}
	write("low 0\noom 9\noom_kill 3\noom_group_kill 0\n")
	if got := c.before(); got != 3 {
		t.Errorf("before = %d, want 3", got)
	}
	write("oom_kill 4\n")
	if before, now := c.before(), c.now(); before != 3 || now != 4 {
		t.Errorf("before, now = %d, %d, want 3, 4", before, now)
	}
}

func TestEnding(t *testing.T) {
	var e ending
	if e.look() != nil || e.stuck() {
		t.Error("an ending that has not begun is due")
	}
	e.begin(time.Hour)
	first := e.killAt
	e.begin(2 * time.Hour)
	if e.killAt != first {
		t.Error("a later stop delayed SIGKILL")
	}
	e.begin(0)
	e.signal(nil, procs.ID{})
	if !e.killed || e.stuck() {
		t.Errorf("killed %v, stuck %v", e.killed, e.stuck())
	}
	e.killedAt -= stuckAfter
	if !e.stuck() {
		t.Error("not stuck after its time")
	}
}

func TestAlarm(t *testing.T) {
	var a alarm
	if a.C() != nil || a.due() {
		t.Error("an alarm that is off fires")
	}
	a.set(host.Boottime() + time.Millisecond)
	for !a.due() {
		<-a.C()
	}
	if left := a.at - host.Boottime(); left > 0 || a.C() != nil {
		t.Errorf("it was due %v early", left)
	}
	a.set(host.Boottime() + time.Hour)
	if a.due() {
		t.Error("it is due an hour early")
	}
	a.off()
}

func TestLookPath(t *testing.T) {
	dir := t.TempDir()
	for name, mode := range map[string]os.FileMode{"prog": 0o755, "text": 0o644} {
		if err := os.WriteFile(filepath.Join(dir, name), nil, mode); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Mkdir(filepath.Join(dir, "folder"), 0o755); err != nil {
		t.Fatal(err)
	}
	tests := []struct {
		name, path, want string
		errno            unix.Errno
	}{
		{"prog", "/nowhere:" + dir, filepath.Join(dir, "prog"), 0},
		{"prog", ".", filepath.Join(dir, "prog"), 0},
		{"./prog", "/nowhere", "./prog", 0},
		{"/x/y", "", "/x/y", 0},
		{"sh", "", "/usr/bin/sh", 0},
		{"prog", "/nowhere", "", unix.ENOENT},
		{"folder", dir, "", unix.ENOENT},
		{"", dir, "", unix.ENOENT},
	}
	if os.Getuid() != 0 {
		tests = append(tests, tests[0])
	}
	for _, tt := range tests {
		got, err := lookPath(tt.name, dir, tt.path)
		if tt.name == "sh" && err == nil {
			got = tt.want // /bin/sh on some machines
		}
		if got != tt.want || (err == nil) != (tt.errno == 0) {
			t.Errorf("lookPath(%q, %q) = %q, %v, want %q", tt.name, tt.path, got, err, tt.want)
		}
	}
	if _, err := lookPath("text", dir, dir); err == nil {
		t.Error("a file that is not a program was found")
	}
}
