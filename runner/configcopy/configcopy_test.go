package configcopy

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

// write writes a copy. With byContent, the copy is named by its content and is never replaced.
func write(path, content string, byContent bool) error {
	c := Copy{Path: path, Lock: lockOf(path), Mode: 0o644, Content: []byte(content)}
	if byContent {
		c.Lock = ""
	}
	_, err := c.Write()
	return err
}

func lockOf(path string) string {
	return filepath.Join(filepath.Dir(path), "locks", filepath.Base(path))
}

func read(t *testing.T, path string) string {
	t.Helper()
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}

func TestWriteReplacesOnlyUnlessNamedByContent(t *testing.T) {
	path := filepath.Join(t.TempDir(), "temp", "a.yaml")
	for _, content := range []string{"seed: 1\n", "seed: 1\n", "seed: 2\n"} {
		if err := write(path, content, false); err != nil || read(t, path) != content {
			t.Fatalf("%q: %v", content, err)
		}
	}
	before, _ := os.Stat(path)
	if err := write(path, "seed: 2\n", true); err != nil {
		t.Error(err)
	}
	if after, _ := os.Stat(path); !os.SameFile(before, after) {
		t.Error("the same content was written again")
	}
	if err := write(path, "seed: 3\n", true); err == nil || read(t, path) != "seed: 2\n" {
		t.Errorf("a copy named by its content was overwritten: %v", err)
	}
}

// A file that a user wrote is saved under another name exactly once, whether they wrote it before
// or after gpurun first used its path.
func TestWriteKeepsForeignContent(t *testing.T) {
	path := filepath.Join(t.TempDir(), "a.yaml")
	c := Copy{Path: path, Lock: lockOf(path), Mode: 0o644}
	for _, step := range []struct{ found, content, kept string }{
		{"mine: 1\n", "seed: 1\n", ".1"},
		{"", "seed: 2\n", ""}, // gpurun's own
		{"mine: 2\n", "seed: 3\n", ".2"},
		{"mine: 1\n", "seed: 4\n", ""}, // kept already
		{"seed: 5\n", "seed: 5\n", ""},
	} {
		if step.found != "" {
			if err := os.WriteFile(path, []byte(step.found), 0o644); err != nil {
				t.Fatal(err)
			}
		}
		c.Content = []byte(step.content)
		kept, err := c.Write()
		if err != nil || strings.TrimPrefix(kept, path) != step.kept || read(t, path) != step.content {
			t.Fatalf("%+v: kept %q, %v", step, kept, err)
		}
		if kept != "" && read(t, kept) != step.found {
			t.Errorf("%+v: kept %q", step, read(t, kept))
		}
	}

	// Older versions left empty lock files.
	old := filepath.Join(t.TempDir(), "old.yaml")
	if err := os.WriteFile(old, []byte("seed: 1\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	held, err := Hold(old, lockOf(old), Sum([]byte("seed: 1\n")))
	if err != nil {
		t.Fatal(err)
	}
	held.Close()
	c = Copy{Path: old, Lock: lockOf(old), Mode: 0o644, Content: []byte("seed: 2\n")}
	if kept, err := c.Write(); kept != "" || err != nil {
		t.Errorf("a copy of an older version was kept as %q, %v", kept, err)
	}
}

func TestHeldFileIsNotReplaced(t *testing.T) {
	path := filepath.Join(t.TempDir(), "a.yaml")
	content := "seed: 1\n"
	if err := write(path, content, false); err != nil {
		t.Fatal(err)
	}
	first, err := Hold(path, lockOf(path), Sum([]byte(content)))
	if err != nil {
		t.Fatal(err)
	}
	second, err := Hold(path, lockOf(path), Sum([]byte(content)))
	if err != nil {
		t.Fatal(err)
	}
	first.Close()
	if err := write(path, "seed: 2\n", false); err == nil || !strings.Contains(err.Error(), "in use by a running job") {
		t.Errorf("replacing a held file: got %v", err)
	}
	if err := write(path, content, false); err != nil {
		t.Errorf("writing the same content to a held file: %v", err)
	}
	second.Close()
	if err := write(path, "seed: 2\n", false); err != nil {
		t.Errorf("replacing a released file: %v", err)
	}
}

func TestHoldRefusesOtherContent(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "a.yaml")
	if err := write(path, "seed: 2\n", false); err != nil {
		t.Fatal(err)
	}
	if _, err := Hold(path, lockOf(path), Sum([]byte("seed: 1\n"))); err == nil || !strings.Contains(err.Error(), "replaced before the job started") {
		t.Errorf("holding a file with other content: got %v", err)
	}
	if _, err := Hold(filepath.Join(dir, "none.yaml"), "", ""); err == nil {
		t.Error("a missing file was held")
	}
	fifo := filepath.Join(dir, "fifo")
	if err := unix.Mkfifo(fifo, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := write(fifo, "", false); err == nil {
		t.Error("a FIFO was overwritten")
	}
}
