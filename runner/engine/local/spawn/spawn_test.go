package spawn

import (
	"errors"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"unsafe"

	"golang.org/x/sys/unix"
)

// request returns a request for a shell command, and the file of its output.
func request(t testing.TB, command string) (*Request, string) {
	t.Helper()
	dir := t.TempDir()
	out, err := os.Create(filepath.Join(dir, "out"))
	if err != nil {
		t.Fatal(err)
	}
	null, err := os.Open(os.DevNull)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { out.Close(); null.Close() })
	return &Request{
		Path: "/bin/sh", Argv: []string{"sh", "-c", command},
		Env: []byte("A=1\x00B=two words\x00"), Dir: dir, Begun: filepath.Join(dir, "begun"), Session: true,
		Files: [3]int{int(null.Fd()), int(out.Fd()), int(out.Fd())},
	}, out.Name()
}

func wait(t testing.TB, pid int) syscall.WaitStatus {
	t.Helper()
	var st syscall.WaitStatus
	for {
		_, err := syscall.Wait4(pid, &st, 0, nil)
		if err == nil {
			return st
		}
		if err != syscall.EINTR {
			t.Fatal(err)
		}
	}
}

func TestStart(t *testing.T) {
	r, out := request(t, `echo "$A $B"; pwd; ps -o sid= -p $$ >/dev/null; cat; echo done >&2; exit 3`)
	p, err := Start(r)
	if err != nil {
		t.Fatal(err)
	}
	if st := wait(t, p.PID); st.ExitStatus() != 3 {
		t.Errorf("status = %v, want exit 3", st)
	}
	got, _ := os.ReadFile(out)
	if want := "1 two words\n" + r.Dir + "\ndone\n"; string(got) != want {
		t.Errorf("output = %q, want %q", got, want)
	}
	begun, err := Begun(r.Begun)
	if err != nil || begun != p || p.Start == 0 {
		t.Errorf("Begun = %v, %v, want %v", begun, err, p)
	}
}

func TestStartIsSession(t *testing.T) {
	r, out := request(t, `read -r line </proc/self/stat; echo $line`)
	p, err := Start(r)
	if err != nil {
		t.Fatal(err)
	}
	wait(t, p.PID)
	b, _ := os.ReadFile(out)
	f := strings.Fields(string(b))
	if len(f) < 6 || f[4] != f[0] || f[5] != f[0] {
		t.Errorf("stat = %q, want process group and session to be the pid", b)
	}
}

func TestStartSignals(t *testing.T) {
	t.Run("clone3", func(t *testing.T) { startSignals(t, uint64(unix.SIGCHLD)) })
	const refused = 1 << 20 // not a signal: clone3 is refused, as by a kernel or container without it
	t.Run("clone", func(t *testing.T) { startSignals(t, refused) })
}

func startSignals(t *testing.T, atExit uint64) {
	// nohup, or a shell's &, starts the tests with these ignored; one that is caught is not.
	caught := make(chan os.Signal, 1)
	signal.Notify(caught, syscall.SIGHUP, syscall.SIGINT, syscall.SIGQUIT)
	defer signal.Stop(caught)
	r, out := request(t, `while read -r k v; do case $k in SigBlk:|SigIgn:) echo $k $v;; esac; done </proc/self/status`)
	c, err := newChild(r)
	if err != nil {
		t.Fatal(err)
	}
	c.clone[exitSignal] = atExit
	p, err := c.start(r)
	if err != nil {
		t.Fatal(err)
	}
	if int(*c.pid) != p.PID || c.old != (atExit != uint64(unix.SIGCHLD)) {
		t.Errorf("pid %d, want %d; clone instead of clone3: %t", *c.pid, p.PID, c.old)
	}
	wait(t, p.PID)
	b, _ := os.ReadFile(out)
	f := strings.Fields(string(b))
	if len(f) != 4 {
		t.Fatalf("got %q", b)
	}
	// libc keeps signals 32 and 33 for itself; what starts the tests may have them ignored.
	const libc = 1<<31 | 1<<32
	for _, set := range []string{f[1], f[3]} {
		if n, err := strconv.ParseUint(set, 16, 64); err != nil || n&^libc != 0 {
			t.Errorf("got %q, want no signal blocked or ignored", b)
		}
	}
}

func TestStartFails(t *testing.T) {
	tests := []struct {
		name  string
		spoil func(*Request)
		stage Stage
		errno syscall.Errno
	}{
		{"no program", func(r *Request) { r.Path = "/nowhere/prog" }, Exec, syscall.ENOENT},
		{"a folder as program", func(r *Request) { r.Path = "/" }, Exec, syscall.EACCES},
		{"no working directory", func(r *Request) { r.Dir = "/nowhere" }, Chdir, syscall.ENOENT},
		{"void", func(r *Request) { Void(r.Begun) }, Begin, syscall.EEXIST},
		{"bad descriptor", func(r *Request) { r.Files[1] = 9999 }, Input, syscall.EBADF},
		{"no folder for the marker", func(r *Request) { r.Begun = "/nowhere/begun" }, Begin, syscall.ENOENT},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			r, out := request(t, "echo ran")
			tt.spoil(r)
			_, err := Start(r)
			var e *Error
			if !errors.As(err, &e) || e.Stage != tt.stage || e.Errno != tt.errno {
				t.Errorf("err = %v, want stage %d, errno %v", err, tt.stage, tt.errno)
			}
			if b, _ := os.ReadFile(out); len(b) != 0 {
				t.Errorf("it ran: %q", b)
			}
		})
	}
}

func TestVoid(t *testing.T) {
	path := filepath.Join(t.TempDir(), "begun")
	for range 2 {
		if won, err := Void(path); !won || err != nil {
			t.Errorf("Void = %v, %v, want true: nobody else made it", won, err)
		}
	}
	if names, _ := os.ReadDir(filepath.Dir(path)); len(names) != 1 {
		t.Errorf("there is something besides the marker: %v", names)
	}
	if p, err := Begun(path); p != (Process{}) || err != nil {
		t.Errorf("Begun of a void marker = %v, %v", p, err)
	}
	r, _ := request(t, ":")
	p, err := Start(r)
	if err != nil {
		t.Fatal(err)
	}
	wait(t, p.PID)
	if won, err := Void(r.Begun); won || err != nil {
		t.Errorf("Void of a begun attempt = %v, %v, want false", won, err)
	}
}

// When a child races somebody who voids its marker, only one of them wins.
func TestVoidRace(t *testing.T) {
	for range 200 {
		r, out := request(t, "echo ran")
		var wg sync.WaitGroup
		var won bool
		wg.Go(func() { won, _ = Void(r.Begun) })
		p, err := Start(r)
		if err == nil {
			wait(t, p.PID)
		}
		wg.Wait()
		b, _ := os.ReadFile(out)
		if ran := len(b) > 0; ran == won || (err == nil) == won {
			t.Fatalf("ran %v, void %v, err %v", ran, won, err)
		}
	}
}

// A child that finds its parent gone does not begin, and leaves no marker.
func TestParentGone(t *testing.T) {
	r, out := request(t, "echo ran")
	c, err := newChild(r)
	if err != nil {
		t.Fatal(err)
	}
	c.parent = 1 // as if the parent were gone
	if _, err := c.start(r); err == nil {
		t.Error("it was started")
	}
	for _, path := range []string{r.Begun, out} {
		if b, err := os.ReadFile(path); err == nil && len(b) > 0 {
			t.Errorf("%s: %q", path, b)
		}
	}
}

func TestNoFile(t *testing.T) {
	r, out := request(t, "ulimit -Sn")
	r.NoFile = 77
	p, err := Start(r)
	if err != nil {
		t.Fatal(err)
	}
	wait(t, p.PID)
	if b, _ := os.ReadFile(out); string(b) != "77\n" {
		t.Errorf("limit = %q, want 77", b)
	}
}

func TestManyAtOnce(t *testing.T) {
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			for range 25 {
				r, _ := request(t, "exit 7")
				p, err := Start(r)
				if err != nil {
					t.Error(err)
					return
				}
				if st := wait(t, p.PID); st.ExitStatus() != 7 {
					t.Errorf("status = %v", st)
				}
			}
		})
	}
	wg.Wait()
}

func BenchmarkStart(b *testing.B) {
	r, _ := request(b, ":")
	for b.Loop() {
		unix.Unlink(r.Begun)
		p, err := Start(r)
		if err != nil {
			b.Fatal(err)
		}
		wait(b, p.PID)
	}
}

func BenchmarkOsExec(b *testing.B) {
	for b.Loop() {
		if err := exec.Command("/bin/sh", "-c", ":").Run(); err != nil {
			b.Fatal(err)
		}
	}
}

// A child that ends can be waited for without a signal.
func TestNoChildSignals(t *testing.T) {
	var before [4]uint64
	action := func(set, get *[4]uint64) {
		_, _, e := unix.RawSyscall6(unix.SYS_RT_SIGACTION, uintptr(unix.SIGCHLD), uintptr(unsafe.Pointer(set)), uintptr(unsafe.Pointer(get)), 8, 0, 0)
		if e != 0 {
			t.Fatal(e)
		}
	}
	got := make(chan os.Signal, 8)
	signal.Notify(got, unix.SIGCHLD, unix.SIGWINCH)
	defer signal.Stop(got)
	action(nil, &before)
	defer action(&before, nil)
	child := func() {
		t.Helper()
		r, _ := request(t, "exit 3")
		p, err := Start(r)
		if err != nil {
			t.Fatal(err)
		}
		pid, err := Peek()
		if err != nil || pid != p.PID {
			t.Fatalf("Peek() = %d, %v, want %d", pid, err, p.PID)
		}
		if now, err := PeekNow(); err != nil || now != p.PID {
			t.Fatalf("PeekNow() = %d, %v, want %d", now, err, p.PID)
		}
		var st unix.WaitStatus
		if _, err := unix.Wait4(pid, &st, unix.WNOHANG, nil); err != nil || st.ExitStatus() != 3 {
			t.Fatalf("Wait4: status %v, %v", st, err)
		}
	}
	child()
	if s := <-got; s != unix.SIGCHLD {
		t.Errorf("got %v before", s)
	}
	NoChildSignals()
	child()
	// One that surely arrives, after any that the child may have caused.
	if err := unix.Kill(os.Getpid(), unix.SIGWINCH); err != nil {
		t.Fatal(err)
	}
	if s := <-got; s != unix.SIGWINCH {
		t.Errorf("got %v of a child that ended", s)
	}
}
