package claim

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"gpurun/gpu"
)

// A user may mount a file system over his folder that never answers. That stops nobody:
// the reading ends, and finds the claims of all others.
func TestFolderOnSilentFileSystem(t *testing.T) {
	root := t.TempDir()
	h := Open([]string{root})
	defer h.Close()
	if _, _, err := h.Claim(context.Background(), "a", "job", gpu.Grant{UUIDs: []gpu.UUID{"GPU-1"}}); err != nil {
		t.Fatal(err)
	}
	dir := filepath.Join(root, prefix+"64007")
	if err := os.Mkdir(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	fuse, err := unix.Open("/dev/fuse", unix.O_RDWR|unix.O_CLOEXEC, 0)
	if err == nil {
		err = unix.Mount("silent", dir, "fuse.silent", unix.MS_NOSUID|unix.MS_NODEV, fmt.Sprintf("fd=%d,rootmode=40000,user_id=64007,group_id=64007,allow_other", fuse))
	}
	if err != nil {
		t.Skip("cannot mount: ", err)
	}
	done := make(chan []gpu.Claim, 1)
	go func() {
		claims, _ := NewReader([]string{root}).Others(context.Background())
		done <- claims
	}()
	hung := false
	select {
	case <-done:
	case <-time.After(10 * time.Second):
		hung = true
	}
	unix.Close(fuse) // ends whatever waits for it
	_ = unix.Unmount(dir, unix.MNT_DETACH)
	if hung {
		t.Error("the reading does not end")
	}
}
