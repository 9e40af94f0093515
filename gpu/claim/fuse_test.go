package claim

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"gpurun/gpu"
)

// A user may mount a file system that never responds over their folder. Readings of the claims must
// still end.
func TestSilentFileSystemDoesNotBlockReaders(t *testing.T) {
	shortLimit(t)
	root := t.TempDir()
	start(t, -1, "hold", root, "a")
	dir := filepath.Join(root, prefix+"64007")
	if err := os.Mkdir(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	unmount := mountSilent(t, dir, 0o40000)
	done := make(chan []gpu.Claim, 1)
	go func() {
		claims, _ := NewReader([]string{root}).Others(context.Background())
		done <- claims
	}()
	hung := false
	select {
	case claims := <-done:
		if !slices.Equal(jobs(claims), []string{"a"}) {
			t.Errorf("claims %+v, want a", claims)
		}
	case <-time.After(time.Minute):
		hung = true
	}
	unmount()
	if hung {
		t.Error("the reading does not end within a minute")
	}
}

// A read error counts as this process's own, which causes doubt while it lasts, unless a user has
// mounted another file system over the file.
func TestFailingFileOfAnotherCausesBoundedDoubt(t *testing.T) {
	root := t.TempDir()
	file := filepath.Join(root, "x"+suffix)
	if err := os.WriteFile(file, nil, 0o644); err != nil {
		t.Fatal(err)
	}
	var st unix.Stat_t
	if err := unix.Stat(root, &st); err != nil {
		t.Fatal(err)
	}
	f := folder{path: root, uid: 64007, dev: uint64(st.Dev)}
	for _, want := range []bool{true, false} {
		if !want {
			defer mountSilent(t, file, 0o100000)()
		}
		for _, err := range []error{unix.EIO, unix.EUCLEAN} {
			var s view
			if !s.unreadable(f, file, err) || s.ours != want || s.short == want {
				t.Errorf("%v: ours %v, short %v; want ours %v", err, s.ours, s.short, want)
			}
		}
	}
}

// mountSilent mounts a file system that never responds.
func mountSilent(t *testing.T, path string, mode int) (unmount func()) {
	t.Helper()
	fuse, err := unix.Open("/dev/fuse", unix.O_RDWR|unix.O_CLOEXEC, 0)
	if err == nil {
		err = unix.Mount("silent", path, "fuse.silent", unix.MS_NOSUID|unix.MS_NODEV, fmt.Sprintf("fd=%d,rootmode=%o,user_id=64007,group_id=64007,allow_other", fuse, mode))
	}
	if err != nil {
		t.Skip("cannot mount: ", err)
	}
	return func() {
		unix.Close(fuse) // makes pending requests fail
		_ = unix.Unmount(path, unix.MNT_DETACH)
	}
}
