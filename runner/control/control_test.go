package control

import (
	"context"
	"errors"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"gpurun/state"
)

// answer replies to every call with f's result, until the server is closed.
func answer(s *Server, f func(Request) Reply) {
	go func() {
		for call := range s.Requests() {
			call.Reply(f(call.Request))
		}
	}()
}

func listen(t *testing.T, dir string) *Server {
	t.Helper()
	s, err := Listen(dir, nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	return s
}

func TestRequestAndReply(t *testing.T) {
	dirs := map[string]string{
		"short path": t.TempDir(),
		"long path":  filepath.Join(t.TempDir(), strings.Repeat("a-long-name/", 20)),
	}
	for name, dir := range dirs {
		t.Run(name, func(t *testing.T) {
			if err := os.MkdirAll(dir, 0o755); err != nil {
				t.Fatal(err)
			}
			s := listen(t, dir)
			answer(s, func(r Request) Reply {
				return Reply{Done: r.Jobs, Snapshot: &state.Snapshot{Total: 7}}
			})
			got, err := Do(context.Background(), dir, Request{Op: OpStop, Jobs: []string{"a", "b*"}})
			if err != nil || strings.Join(got.Done, " ") != "a b*" || got.PID != os.Getpid() || got.Snapshot.Total != 7 {
				t.Errorf("got %+v, %v", got, err)
			}
		})
	}
}

func TestRefusalIsAnError(t *testing.T) {
	dir := t.TempDir()
	answer(listen(t, dir), func(Request) Reply { return Reply{Err: `no job "x"`} })
	if _, err := Do(context.Background(), dir, Request{Op: OpStop}); err == nil || err.Error() != `no job "x"` {
		t.Errorf("got %v", err)
	}
}

func TestNobodyListens(t *testing.T) {
	dir := t.TempDir()
	s := listen(t, dir)
	s.Close()
	// What a killed run leaves: a socket that nobody listens on.
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
	answer(listen(t, filepath.Dir(left)), func(Request) Reply { return Reply{} })
	if _, err := Do(context.Background(), filepath.Dir(left), Request{Op: OpStatus}); err != nil {
		t.Errorf("after a new run has replaced the socket: %v", err)
	}
}

// A peer that connects and says nothing does not keep others from being heard,
// nor the server from closing.
func TestSilentPeer(t *testing.T) {
	dir := t.TempDir()
	s := listen(t, dir)
	answer(s, func(Request) Reply { return Reply{} })
	silent, err := net.Dial("unix", socketPath(dir))
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	if _, err := Do(ctx, dir, Request{Op: OpStatus}); err != nil {
		t.Error(err)
	}
	silent.Close()
}

func TestGarbageIsDropped(t *testing.T) {
	dir := t.TempDir()
	answer(listen(t, dir), func(Request) Reply { return Reply{} })
	c, err := net.Dial("unix", socketPath(dir))
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	c.Write([]byte("GET / HTTP/1.1\r\n\r\n"))
	c.SetReadDeadline(time.Now().Add(5 * time.Second))
	if n, err := c.Read(make([]byte, 1)); n != 0 || err == nil {
		t.Errorf("got %d bytes, %v; want the connection closed", n, err)
	}
}
