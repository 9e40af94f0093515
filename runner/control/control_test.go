package control

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"gpurun/state"
	"gpurun/state/schema"
)

func plain(f func()) { go f() }

// listen starts a server and answers every request with f.
func listen(t *testing.T, dir string, f func(Request) Reply) *Server {
	t.Helper()
	calls := make(chan *Call)
	s, err := Listen(dir, calls, plain)
	if err != nil {
		t.Fatal(err)
	}
	go func() {
		for call := range calls {
			call.Reply <- f(call.Request)
		}
	}()
	t.Cleanup(func() {
		s.Close()
		close(calls)
	})
	return s
}

func nothing(Request) Reply { return Reply{} }

func TestReplyReachesClientUnchanged(t *testing.T) {
	dirs := map[string]string{
		"short path": t.TempDir(),
		"long path":  filepath.Join(t.TempDir(), strings.Repeat("a-long-name/", 20)),
	}
	for name, dir := range dirs {
		t.Run(name, func(t *testing.T) {
			if err := os.MkdirAll(dir, 0o755); err != nil {
				t.Fatal(err)
			}
			listen(t, dir, func(r Request) Reply {
				return Reply{Done: r.Jobs, Status: &schema.Status{Counts: map[state.Phase]int{state.Running: 7}}}
			})
			got, err := Do(context.Background(), dir, Request{Op: OpStop, Jobs: []string{"a", "b*"}})
			if err != nil || strings.Join(got.Done, " ") != "a b*" || got.PID != os.Getpid() || got.Status.Counts[state.Running] != 7 {
				t.Errorf("got %+v, %v", got, err)
			}
		})
	}
}

// A shell may pass megabytes of job names to a command.
func TestRequestMayNameManyJobs(t *testing.T) {
	dir, names := t.TempDir(), make([]string, 100_000)
	for i := range names {
		names[i] = fmt.Sprintf("lr<%d&model=vit-tiny", i)
	}
	listen(t, dir, func(r Request) Reply { return Reply{Done: r.Jobs} })
	got, err := Do(context.Background(), dir, Request{Op: OpRetry, Jobs: names})
	if err != nil || !slices.Equal(got.Done, names) {
		t.Errorf("got %d of %d names, %v", len(got.Done), len(names), err)
	}
}

func TestDoFailsWithoutAnswer(t *testing.T) {
	dir, calls := t.TempDir(), make(chan *Call)
	s, err := Listen(dir, calls, plain)
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	ctx, cancel := context.WithTimeout(context.Background(), 50*time.Millisecond)
	defer cancel()
	if _, err := Do(ctx, dir, Request{Op: OpStatus}); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("got %v, want DeadlineExceeded", err)
	}
}

func TestRefusedRequestReturnsError(t *testing.T) {
	dir := t.TempDir()
	listen(t, dir, func(Request) Reply { return Reply{Err: `no job "x"`} })
	if _, err := Do(context.Background(), dir, Request{Op: OpStop}); err == nil || err.Error() != `no job "x"` {
		t.Errorf("got %v", err)
	}
}

func TestNoListenerReturnsErrNoRun(t *testing.T) {
	dir := t.TempDir()
	listen(t, dir, nothing).Close()
	if left, _ := os.ReadDir(dir); len(left) != 0 {
		t.Errorf("Close left %v", left)
	}
	// A killed run leaves a socket without a listener.
	left := filepath.Join(t.TempDir(), socketName)
	l, err := net.ListenUnix("unix", &net.UnixAddr{Name: left, Net: "unix"})
	if err != nil {
		t.Fatal(err)
	}
	l.SetUnlinkOnClose(false)
	l.Close()
	for name, d := range map[string]string{"no folder": dir + "/none", "closed": dir, "killed": filepath.Dir(left)} {
		if _, err := Do(context.Background(), d, Request{Op: OpStatus}); !errors.Is(err, ErrNoRun) {
			t.Errorf("%s: got %v, want ErrNoRun", name, err)
		}
	}
	listen(t, filepath.Dir(left), nothing)
	if _, err := Do(context.Background(), filepath.Dir(left), Request{Op: OpStatus}); err != nil {
		t.Errorf("after a new run replaced the socket: %v", err)
	}
}

func TestSilentClientBlocksNoOthers(t *testing.T) {
	dir := t.TempDir()
	listen(t, dir, nothing)
	silent, err := net.Dial("unix", filepath.Join(dir, socketName))
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	if _, err := Do(ctx, dir, Request{Op: OpStatus}); err != nil {
		t.Error(err)
	}
	silent.Close()
}

func TestServerDropsInvalidRequests(t *testing.T) {
	dir := t.TempDir()
	listen(t, dir, nothing)
	c, err := net.Dial("unix", filepath.Join(dir, socketName))
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	c.Write([]byte("GET / HTTP/1.1\r\n\r\n"))
	c.SetReadDeadline(time.Now().Add(time.Minute))
	if n, err := c.Read(make([]byte, 1)); n != 0 || err == nil {
		t.Errorf("got %d bytes, %v; want a closed connection", n, err)
	}
}

// If the batch folder cannot hold a socket, here because a folder has its name, the socket is in
// the runtime folder.
func TestRunListensInRuntimeFolder(t *testing.T) {
	runtime, dir := t.TempDir(), t.TempDir()
	t.Setenv("XDG_RUNTIME_DIR", runtime)
	if err := os.MkdirAll(filepath.Join(dir, socketName, "x"), 0o755); err != nil {
		t.Fatal(err)
	}
	s := listen(t, dir, func(Request) Reply { return Reply{Done: []string{"a"}} })
	if got, err := Do(context.Background(), dir, Request{Op: OpStop}); err != nil || len(got.Done) != 1 {
		t.Errorf("got %+v, %v", got, err)
	}
	s.Close()
	if left, _ := os.ReadDir(filepath.Join(runtime, "gpurun")); len(left) != 0 {
		t.Errorf("Close left %v", left)
	}
	if _, err := Do(context.Background(), dir, Request{Op: OpStop}); !errors.Is(err, ErrNoRun) && !errors.Is(err, unix.ECONNREFUSED) {
		t.Errorf("after Close: got %v", err)
	}
	if err := os.Chmod(filepath.Join(runtime, "gpurun"), 0o777); err != nil {
		t.Fatal(err)
	}
	if _, err := Listen(dir, nil, plain); err == nil {
		t.Error("Listen accepts a world-writable runtime folder")
	}
}
