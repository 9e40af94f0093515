package local

import (
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"gpurun/runner/engine"
)

// A socket on which another user listens is not a keeper's, whatever its name. The runner reports
// it and sends nothing to it.
func TestForeignSocketIsReported(t *testing.T) {
	if os.Getuid() != 0 {
		t.Skip("only root may listen as another user")
	}
	dir := t.TempDir()
	path := filepath.Join(dir, "keeper-00000000.sock")
	f := listenAs(t, path, 64001)
	defer f.Close()
	ln, err := net.FileListener(f)
	if err != nil {
		t.Fatal(err)
	}
	defer ln.Close()
	heard := make(chan int, 1)
	go func() {
		c, err := ln.Accept()
		if err != nil {
			return
		}
		n, _ := c.Read(make([]byte, 1))
		heard <- n
	}()
	l, err := openLocal(engine.Config{Dir: dir})
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	if ev := <-l.Events(); len(ev.Warnings) != 1 || !strings.Contains(ev.Warnings[0], path) {
		t.Errorf("got %+v, want a warning that names %s", ev, path)
	}
	if n := <-heard; n != 0 {
		t.Error("the other user received something")
	}
	if _, err := os.Stat(path); err != nil {
		t.Errorf("the other user's socket is gone: %v", err)
	}
}

// listenAs listens as another user, because the kernel records the caller of listen as the peer.
func listenAs(t *testing.T, path string, uid int) *os.File {
	t.Helper()
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	fd, err := unix.Socket(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err == nil {
		err = unix.Bind(fd, &unix.SockaddrUnix{Name: path})
	}
	if err != nil {
		t.Fatal(err)
	}
	// Unlike functions of package syscall, this affects only the current thread.
	become := func(uid int) {
		if _, _, e := unix.RawSyscall(unix.SYS_SETRESUID, ^uintptr(0), uintptr(uid), ^uintptr(0)); e != 0 {
			t.Fatal(e)
		}
	}
	become(uid)
	err = unix.Listen(fd, 8)
	become(0)
	if err != nil {
		t.Fatal(err)
	}
	return os.NewFile(uintptr(fd), path)
}

// Only the name of another program is read, not its command line, which could block.
func TestOtherProgramsAreNotAskedWhetherTheyAreKeepers(t *testing.T) {
	cmd := exec.Command("sh", "__keeper", "keeper-00000000.sock")
	cmd.Dir = t.TempDir()
	if err := os.WriteFile(filepath.Join(cmd.Dir, "__keeper"), []byte("read line"), 0o600); err != nil {
		t.Fatal(err)
	}
	in, err := cmd.StdinPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		t.Fatal(err)
	}
	if isKeeper(cmd.Process.Pid) {
		t.Error("sh counts as a keeper because of its arguments")
	}
	in.Close()
	_ = cmd.Wait()
}
