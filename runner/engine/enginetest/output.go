package enginetest

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// testOutput: where an attempt's output goes.
func testOutput(t *testing.T, open Opener) {
	b := newBench(t, open)
	run := func(name string, f func(t *testing.T)) {
		t.Run(name, func(t *testing.T) { b.t = t; f(t) })
	}
	run("one file keeps the order", func(t *testing.T) {
		l := b.launch("for i in 1 2 3; do echo o$i; echo e$i >&2; done")
		b.expect(b.run(l), outcome{})
		if got, want := b.log(l), "o1\ne1\no2\ne2\no3\ne3\n"; got != want {
			t.Errorf("log = %q, want %q", got, want)
		}
	})
	run("two files", func(t *testing.T) {
		l := b.launch("echo out; echo err >&2")
		l.Stderr = filepath.Join(t.TempDir(), "new", "folder", "err")
		b.expect(b.run(l), outcome{})
		err, _ := os.ReadFile(l.Stderr)
		if b.log(l) != "out\n" || string(err) != "err\n" {
			t.Errorf("stdout %q, stderr %q", b.log(l), err)
		}
	})
	run("header, then appended", func(t *testing.T) {
		l := b.launch("echo new")
		l.Stdout = filepath.Join(t.TempDir(), "log")
		l.Stderr, l.Header = l.Stdout, "--- attempt 2 ---\n"
		if err := os.WriteFile(l.Stdout, []byte("old\n"), 0o644); err != nil {
			t.Fatal(err)
		}
		b.expect(b.run(l), outcome{})
		if got, want := b.log(l), "old\n--- attempt 2 ---\nnew\n"; got != want {
			t.Errorf("log = %q, want %q", got, want)
		}
	})
	run("header in both files", func(t *testing.T) {
		l := b.launch("echo out; echo err >&2")
		l.Stderr, l.Header = filepath.Join(t.TempDir(), "err"), "--- attempt 2 ---\n"
		b.expect(b.run(l), outcome{})
		err, _ := os.ReadFile(l.Stderr)
		if b.log(l) != l.Header+"out\n" || string(err) != l.Header+"err\n" {
			t.Errorf("stdout %q, stderr %q", b.log(l), err)
		}
	})
	run("a FIFO that nobody reads", func(t *testing.T) {
		l := b.launch("echo ran")
		l.Stdout = b.fifo(l)
		l.Stderr = l.Stdout
		if got := b.run(l); got.Err == "" {
			t.Errorf("ended as %+v, want an error", got)
		}
	})
	run("a log that is a folder", func(t *testing.T) {
		l := b.launch("echo ran")
		l.Stdout = t.TempDir()
		if got := b.run(l); !strings.Contains(got.Err, l.Stdout) {
			t.Errorf("Err = %q, does not name the log", got.Err)
		}
	})
	run("a device", func(t *testing.T) {
		l := b.launch("echo ran")
		l.Stdout, l.Stderr = os.DevNull, os.DevNull
		b.expect(b.run(l), outcome{})
	})
	run("a lot of output", func(t *testing.T) {
		l := b.launch("head -c 67108864 /dev/zero")
		b.expect(b.run(l), outcome{})
		if fi, err := os.Stat(l.Stdout); err != nil || fi.Size() != 64<<20 {
			t.Errorf("log: %v, %v", fi, err)
		}
	})
}
