//go:build linux && cgo

package probe

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/rs/zerolog"
	"golang.org/x/sys/unix"
)

// gone waits for a child to end.
func gone(t *testing.T, c *child) {
	t.Helper()
	select {
	case <-c.done:
	case <-time.After(time.Minute):
		t.Error("the child is still alive")
	}
}

func TestHangingChildIsAbandoned(t *testing.T) {
	behave(t)
	r := open(t, Options{Library: standIn(t), Deadline: 300 * time.Millisecond, Log: zerolog.New(zerolog.NewTestWriter(t))})
	first := r.child
	behave(t, "hang=util")
	if got, want := full(r).Err, "the driver hangs: no response within 300ms"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
	gone(t, first)
	behave(t)
	r.o.Deadline = 10 * time.Second
	if snap := full(r); snap.Err != "" || len(snap.Readings) != 2 {
		t.Errorf("after the child has ended: got %+v", snap)
	}
	if r.child == first {
		t.Error("the hung child is still used")
	}
}

func TestNoSecondChildWhileOneHangs(t *testing.T) {
	now := time.Hour
	r := &reader{o: Options{Now: func() time.Duration { return now }}, stuck: &child{done: make(chan struct{}), stuckAt: time.Hour - 40*time.Second}}
	if got, want := full(r).Err, "the driver hangs: gpurun gave up on a reading 40s ago"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
	if r.child != nil {
		t.Error("a second child was started")
	}
}

func TestCrashedChildIsReplaced(t *testing.T) {
	behave(t)
	r := open(t, Options{Library: standIn(t)})
	first := r.child
	if err := first.cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	gone(t, first)
	if snap := full(r); snap.Err != "" || len(snap.Readings) != 2 {
		t.Errorf("got %+v, want a reading by a new child", snap)
	}
}

func TestRepeatedCrashesPauseLonger(t *testing.T) {
	behave(t)
	now := time.Hour
	r := open(t, Options{Library: standIn(t), Now: func() time.Duration { return now }})
	behave(t, "crash=util")
	if got, want := full(r).Err, "the process that reads the GPUs crashed: exit status 2: SIGSEGV"; !strings.HasPrefix(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
	behave(t)
	if got := full(r).Err; !strings.Contains(got, "crashed") || r.child != nil {
		t.Errorf("within the pause: got %q", got)
	}
	for i, pause := range []time.Duration{time.Second, 2 * time.Second, 4 * time.Second} {
		behave(t)
		now += pause - 1
		if full(r); r.child != nil {
			t.Errorf("crash %d: a child was started after less than %v", i+2, pause)
		}
		behave(t, "crash=util")
		now++
		if got := full(r).Err; !strings.Contains(got, "crashed") || r.fails != i+3 {
			t.Errorf("crash %d, after the pause of %v: got %q, %d crashes", i+2, pause, got, r.fails)
		}
	}
	behave(t)
	now += maxPause
	if snap := full(r); snap.Err != "" || r.fails != 0 {
		t.Errorf("after the last pause: got %q, %d crashes", snap.Err, r.fails)
	}
}

func TestLostDriverNeedsNewChild(t *testing.T) {
	behave(t)
	r := open(t, Options{Library: standIn(t)})
	first := r.child
	behave(t, "err.memory=1", "err.memory2=1")
	if got, want := full(r).Err, "NVML is no longer initialized (NVML error 1)"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
	gone(t, first)
	behave(t)
	if snap := full(r); snap.Err != "" || r.child == first {
		t.Errorf("got %+v, want a reading by a new child", snap)
	}
}

func TestContextEndsReading(t *testing.T) {
	behave(t)
	r := open(t, Options{Library: standIn(t), Deadline: 2 * time.Second})
	behave(t, "hang=util")
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	for range 5 {
		if got := r.Read(ctx, Query{Processes: true}).Err; got != "context canceled" {
			t.Errorf("got %q", got)
		}
	}
	if got := full(r).Err; got != "the driver hangs: no response within 2s" {
		t.Errorf("got %q", got)
	}
}

// A hung library must not keep the child alive after its parent has closed its stdin.
func TestChildEndsWithItsStdin(t *testing.T) {
	behave(t)
	r := open(t, Options{Library: standIn(t)})
	c := r.child
	behave(t, "hang=util")
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	for range 3 {
		r.Read(ctx, Query{Processes: true})
	}
	_ = c.stdin.Close()
	gone(t, c)
	if c.ended != nil {
		t.Errorf("got %v, want exit status 0", c.ended)
	}
	r.child = nil
}

func TestNoReadingAfterClose(t *testing.T) {
	behave(t)
	r := open(t, Options{Library: standIn(t)})
	c := r.child
	if err := r.Close(); err != nil {
		t.Fatal(err)
	}
	gone(t, c)
	if got := full(r).Err; got != "the reader is closed" || r.child != nil {
		t.Errorf("got %q", got)
	}
}

// The child has its pipes but none of its parent's locks or files.
func TestChildInheritsNoFiles(t *testing.T) {
	f, err := os.Create(filepath.Join(t.TempDir(), "lock"))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = f.Close() }()
	if _, err := unix.FcntlInt(f.Fd(), unix.F_SETFD, 0); err != nil { // like a descriptor inherited by this process
		t.Fatal(err)
	}
	behave(t)
	c := open(t, Options{Library: standIn(t)}).child
	fds := fmt.Sprintf("/proc/%d/fd", c.cmd.Process.Pid)
	entries, err := os.ReadDir(fds)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		target, err := os.Readlink(filepath.Join(fds, e.Name()))
		if err == nil && strings.HasPrefix(target, os.TempDir()) {
			t.Errorf("fd %s is %s", e.Name(), target)
		}
	}
	if sid, err := unix.Getsid(c.cmd.Process.Pid); err != nil || sid != c.cmd.Process.Pid {
		t.Errorf("session %d, %v, want its own", sid, err)
	}
}

// With LD_BIND_NOW, the loader would resolve all of NVML before main.
func TestNVMLIsBoundLazily(t *testing.T) {
	t.Setenv("LD_BIND_NOW", "1")
	behave(t)
	if snap := full(open(t, Options{Library: standIn(t)})); snap.Err != "" {
		t.Errorf("got %q", snap.Err)
	}
}

func TestRelativeLibraryPathWorks(t *testing.T) {
	behave(t)
	lib := standIn(t)
	t.Chdir(filepath.Dir(lib))
	if snap := full(open(t, Options{Library: "./" + filepath.Base(lib)})); snap.Err != "" {
		t.Errorf("got %q", snap.Err)
	}
}
