package local

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"gpurun/runner/engine/local/wire"
)

// On a full disk, no attempt may start, and no end may be lost.
func TestFullDiskLosesNoEnd(t *testing.T) {
	if os.Getuid() != 0 {
		t.Skip("needs root, to mount a small file system")
	}
	s := &scene{T: t, dir: t.TempDir()}
	if err := unix.Mount("gpurun-test", s.dir, "tmpfs", 0, "size=256k"); err != nil {
		t.Skip("cannot mount: ", err)
	}
	t.Cleanup(func() { unix.Unmount(s.dir, unix.MNT_DETACH) })
	s.open()
	s.launch = s.prepare("first", "read x <fifo; exit 4")
	s.start()
	first := s.launch
	s.launch = s.prepare("second", "echo ran")
	fill(t, filepath.Join(s.dir, "filler"))
	s.engine.Launch(s.launch)
	if got := s.ended(); !strings.Contains(got.Err, s.dir) || !got.NoRoom {
		t.Errorf("second job on a full disk ended as %+v, want an error that names %s", got, s.dir)
	}
	s.launch = first
	s.goOn()
	if got := s.ended(); got.ExitCode != 4 || got.Err != "" {
		t.Errorf("first job ended as %+v, want exit 4", got)
	}
	if rec, err := wire.Find(first.Dir, first.UniID); err != nil || rec.State != wire.StateOver || rec.ExitCode != 4 {
		t.Errorf("record = %+v, %v", rec, err)
	}
}

func fill(t *testing.T, path string) {
	t.Helper()
	f, err := os.Create(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	for _, n := range []int{4096, 1} {
		for err = nil; err == nil; {
			_, err = f.Write(make([]byte, n))
		}
	}
}
