package control

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"
)

// A run on a host that shares the folder is reported while it is alive, and counts as
// none once it has died.
func TestRunOnAnotherHost(t *testing.T) {
	dir := t.TempDir()
	f, err := address{Host: "gpu01", Boot: "another", PID: 7}.publish(dir)
	if err != nil {
		t.Fatal(err)
	}
	var other *OtherHostError
	if _, err := Do(context.Background(), dir, Request{Op: OpStop}); !errors.As(err, &other) || *other != (OtherHostError{"gpu01", 7}) {
		t.Errorf("got %v", err)
	}
	f.Close() // the lock ends with the process
	if _, err := Do(context.Background(), dir, Request{Op: OpStop}); !errors.Is(err, ErrNoRun) {
		t.Errorf("got %v after its death", err)
	}
	s := listen(t, dir)
	answer(s, func(Request) Reply { return Reply{} })
	if _, err := Do(context.Background(), dir, Request{Op: OpStatus}); err != nil {
		t.Errorf("a new run here: %v", err)
	}
	s.Close()
	if left, _ := os.ReadDir(dir); len(left) != 0 {
		t.Errorf("a closed server leaves %v", left)
	}
}

func TestBrokenAddressIsNone(t *testing.T) {
	dir := t.TempDir()
	answer(listen(t, dir), func(Request) Reply { return Reply{} })
	for _, content := range []string{"", "{", "[]", `{"host":7}`, `{"socket":"/nowhere"}`} {
		if err := os.WriteFile(filepath.Join(dir, addressName), []byte(content), 0o644); err != nil {
			t.Fatal(err)
		}
		if _, err := Do(context.Background(), dir, Request{Op: OpStatus}); err != nil {
			t.Errorf("%q: %v", content, err)
		}
	}
}

// If the folder cannot hold a socket, here because a folder is in its place, the run
// listens in the runtime folder.
func TestSocketElsewhere(t *testing.T) {
	runtime, dir := t.TempDir(), t.TempDir()
	t.Setenv("XDG_RUNTIME_DIR", runtime)
	if err := os.MkdirAll(filepath.Join(dir, socketName, "x"), 0o755); err != nil {
		t.Fatal(err)
	}
	s := listen(t, dir)
	answer(s, func(Request) Reply { return Reply{Done: []string{"a"}} })
	if got, err := Do(context.Background(), dir, Request{Op: OpStop}); err != nil || len(got.Done) != 1 {
		t.Errorf("got %+v, %v", got, err)
	}
	s.Close()
	if left, _ := os.ReadDir(filepath.Join(runtime, "gpurun")); len(left) != 0 {
		t.Errorf("a closed server leaves %v", left)
	}
	if _, err := Do(context.Background(), dir, Request{Op: OpStop}); !errors.Is(err, ErrNoRun) && !errors.Is(err, unix.ECONNREFUSED) {
		t.Errorf("got %v after the end", err)
	}
	if err := os.Chmod(filepath.Join(runtime, "gpurun"), 0o777); err != nil {
		t.Fatal(err)
	}
	if _, err := Listen(dir, nil); err == nil {
		t.Error("used a world-writable folder for the socket")
	}
}
