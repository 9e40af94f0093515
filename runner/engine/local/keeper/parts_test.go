package keeper

import (
	"errors"
	"os"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"
)

func TestOOMCounterOfCgroups(t *testing.T) {
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

func TestLookPathFindsExecutables(t *testing.T) {
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
		name, path string
		errno      unix.Errno
	}{
		{"prog", "/nowhere:" + dir, 0},
		{"prog", ".", 0},
		{"./prog", "/nowhere", 0},
		{"/x/y", "", unix.ENOENT},
		{"sh", "", 0},
		{"prog", "/nowhere", unix.ENOENT},
		{"folder", dir, unix.ENOENT},
		{"", dir, unix.ENOENT},
	}
	if os.Getuid() != 0 {
		tests = append(tests, tests[0])
	}
	for _, tt := range tests {
		_, err := lookPath(tt.name, dir, tt.path)
		if (err == nil) != (tt.errno == 0) || tt.errno != 0 && !errors.Is(err, tt.errno) {
			t.Errorf("lookPath(%q, %q): %v, want %v", tt.name, tt.path, err, tt.errno)
		}
	}
	if _, err := lookPath("text", dir, dir); !errors.Is(err, unix.EACCES) {
		t.Errorf("file that is not executable: got %v, want EACCES", err)
	}
}

// A program is searched for again only if it is no longer where it was found. With a PATH that
// depends on the working directory, it is searched for every time.
func TestProgramIsSearchedOncePerPATH(t *testing.T) {
	first, second := t.TempDir(), t.TempDir()
	add := func(dir string) string {
		path := filepath.Join(dir, "prog")
		if err := os.WriteFile(path, nil, 0o755); err != nil {
			t.Fatal(err)
		}
		return path
	}
	k := &keeper{}
	for _, step := range []struct {
		path string
		want func() string
	}{
		{first + ":" + second, func() string { return add(second) }},
		{first + ":" + second, func() string { add(first); return filepath.Join(second, "prog") }},
		{second + ":" + first, func() string { return filepath.Join(second, "prog") }},
		{first + ":" + second, func() string { _ = os.Remove(filepath.Join(second, "prog")); return filepath.Join(first, "prog") }},
		{".:" + first, func() string { return filepath.Join(first, "prog") }},
		{".:" + first, func() string { add(second); return "prog" }},
	} {
		want := step.want()
		if got, err := k.program("prog", second, step.path); got != want || err != nil {
			t.Errorf("in PATH=%s: got %q, %v, want %q", step.path, got, err, want)
		}
	}
}
