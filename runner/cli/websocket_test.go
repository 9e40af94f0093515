package cli

import (
	"errors"
	"io"
	"net"
	"os"
	"path/filepath"
	"runtime"
	"syscall"
	"testing"
	"time"
)

// Another user cannot open the socket. If its mode is changed, they still get no answer.
func TestWebSocketRefusesOtherUsers(t *testing.T) {
	dir, err := os.MkdirTemp("", "web")
	if err != nil {
		t.Fatal(err)
	}
	defer os.RemoveAll(dir)
	if err := os.Chmod(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(dir, "s")
	l, err := listenUnix(path)
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	if fi, err := os.Stat(path); err != nil || fi.Mode().Perm() != 0o600 {
		t.Errorf("socket mode: got %v, %v, want 0600", fi.Mode(), err)
	}
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			c.Write([]byte("hello"))
			c.Close()
		}
	}()
	if got, err := heard(path); got != "hello" {
		t.Errorf("own user: got %q, %v, want hello", got, err)
	}
	if _, err := listenUnix(path); err == nil {
		t.Error("a second server replaced the socket of the first")
	}
	if os.Getuid() != 0 {
		t.Skip("needs root to act as another user")
	}
	if _, err := stranger(func() (string, error) { return heard(path) }); !errors.Is(err, syscall.EACCES) {
		t.Errorf("another user: got %v, want EACCES", err)
	}
	if err := os.Chmod(path, 0o777); err != nil {
		t.Fatal(err)
	}
	if got, _ := stranger(func() (string, error) { return heard(path) }); got != "" {
		t.Errorf("another user, mode 0777: got answer %q", got)
	}
	l.Close()
	left, err := net.ListenUnix("unix", &net.UnixAddr{Name: path, Net: "unix"}) // left by a killed server
	if err != nil {
		t.Fatal(err)
	}
	left.SetUnlinkOnClose(false)
	left.Close()
	if l, err = listenUnix(path); err != nil {
		t.Errorf("cannot replace the socket of a dead server: %v", err)
	}
}

// heard returns everything that a server sends.
func heard(path string) (string, error) {
	fd, err := syscall.Socket(syscall.AF_UNIX, syscall.SOCK_STREAM, 0)
	if err != nil {
		return "", err
	}
	f := os.NewFile(uintptr(fd), path)
	defer f.Close()
	if err := syscall.Connect(fd, &syscall.SockaddrUnix{Name: path}); err != nil {
		return "", err
	}
	c, err := net.FileConn(f)
	if err != nil {
		return "", err
	}
	defer c.Close()
	_ = c.SetReadDeadline(time.Now().Add(time.Minute))
	b, err := io.ReadAll(c)
	return string(b), err
}

// stranger calls f on a thread of another user, and ends the thread.
func stranger(f func() (string, error)) (got string, err error) {
	done := make(chan struct{})
	go func() {
		defer close(done)
		runtime.LockOSThread()                    // without Unlock, so that the thread ends with this goroutine
		if syscall.Gettid() == syscall.Getpid() { // the main thread never ends, so it would stay another user's
			got, err = stranger(f)
			runtime.UnlockOSThread()
			return
		}
		const nobody = 65534
		if _, _, errno := syscall.RawSyscall(syscall.SYS_SETRESUID, nobody, nobody, nobody); errno != 0 {
			err = errno
			return
		}
		got, err = f()
	}()
	<-done
	return got, err
}
