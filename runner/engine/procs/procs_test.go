package procs

import (
	"errors"
	"os"
	"os/exec"
	"reflect"
	"slices"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"gpurun/state/host"
)

func TestProcessIsRead(t *testing.T) {
	p, ok := One(os.Getpid())
	if !ok || p.PID != os.Getpid() || p.Parent != os.Getppid() || p.Start == 0 || p.Zombie {
		t.Errorf("One(this process) = %+v, %v", p, ok)
	}
	if !Alive(p.ID) {
		t.Error("this process does not count as alive")
	}
	other := p.ID
	other.Start++
	if Alive(other) {
		t.Error("another process with the same PID counts as alive")
	}
	if err := Signal(other, unix.SIGKILL); err != nil {
		t.Errorf("Signal to an ended process: %v", err)
	}
	if p, ok := One(1 << 30); ok {
		t.Errorf("One(unused PID) = %+v", p)
	}
	q := Read()[os.Getpid()]
	if q.CPU < p.CPU {
		t.Errorf("CPU time went from %v to %v", p.CPU, q.CPU)
	}
	if q.CPU = p.CPU; q != p {
		t.Errorf("Read: got %+v, want %+v", q, p)
	}
}

func TestChildListParsesPIDs(t *testing.T) {
	list, err := ChildList()
	if errors.Is(err, os.ErrNotExist) {
		t.Skip("this kernel has no lists of children")
	}
	if err != nil {
		t.Fatal(err)
	}
	defer list.Close()
	if _, err := Pids(list); err != nil {
		t.Error(err)
	}
	if _, err := Pids(nil); err == nil {
		t.Error("Pids(nil) returned no error")
	}
}

func TestChildrenOfFirstThread(t *testing.T) {
	cmd := exec.Command("sh", "-c", `for i in 1 2 3; do sleep 1000 >/dev/null & all="$all $!"; done; cat /proc/$$/task/$$/children; kill $all`)
	out, err := cmd.Output()
	if _, missing := ChildList(); errors.Is(missing, os.ErrNotExist) {
		t.Skip("this kernel has no lists of children")
	}
	if err != nil {
		t.Fatal(err)
	}
	f, err := os.CreateTemp(t.TempDir(), "")
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if _, err := f.Write(out); err != nil {
		t.Fatal(err)
	}
	if pids, err := Pids(f); err != nil || len(pids) < 3 {
		t.Errorf("Pids of %q = %v, %v", out, pids, err)
	}
}

func TestAddIncludesDescendants(t *testing.T) {
	table := Table{}
	for pid, parent := range map[int]int{2: 1, 3: 2, 4: 3, 5: 1, 6: 5, 7: 7} {
		table[pid] = Proc{ID: ID{PID: pid}, Parent: parent}
	}
	set := map[int]bool{2: true, 6: true}
	table.Children().Add(set)
	var got []int
	for pid := range set {
		got = append(got, pid)
	}
	slices.Sort(got)
	if want := []int{2, 3, 4, 6}; !reflect.DeepEqual(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
}

func TestUniIDIsFoundInEnvironment(t *testing.T) {
	tests := []struct{ name, env, want string }{
		{"first", "GPURUN_UNI_ID=1\x00Y=2\x00", "1"},
		{"last, not terminated", "Y=2\x00GPURUN_UNI_ID=1", "1"},
		{"longer name", "GPURUN_UNI_IDX=1\x00", ""},
		{"empty", "GPURUN_UNI_ID=\x00", ""},
		{"no equals sign", "GPURUN_UNI_ID\x00", ""},
		{"none", "", ""},
		{"empty entries", "\x00\x00GPURUN_UNI_ID=a=b\x00", "a=b"},
	}
	for _, tt := range tests {
		if got := uniIDIn([]byte(tt.env)); got != tt.want {
			t.Errorf("%s: got %q, want %q", tt.name, got, tt.want)
		}
	}
}

// A process is alive while any of its threads runs, even if its first thread has ended.
func TestProcessWithoutFirstThreadIsAlive(t *testing.T) {
	cmd := exec.Command("python3", "-c", `
import ctypes, threading, sys
threading.Thread(target=sys.stdin.read).start()
print("up", flush=True)
ctypes.CDLL(None).pthread_exit(None)`)
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	cmd.Stderr = os.Stderr
	if err := cmd.Start(); err != nil {
		t.Skip("needs python3")
	}
	t.Cleanup(func() { _, _ = cmd.Process.Kill(), cmd.Wait() })
	if _, err := out.Read(make([]byte, 8)); err != nil {
		t.Fatalf("python3 printed nothing: %v", err)
	}
	for began := time.Now(); ; time.Sleep(time.Millisecond) {
		if st, ok := host.StatOf(cmd.Process.Pid); ok && st.State == 'Z' {
			break
		}
		if time.Since(began) > time.Minute {
			t.Fatal("the first thread has not ended")
		}
	}
	p, ok := One(cmd.Process.Pid)
	if !ok || p.Zombie {
		t.Errorf("got %+v, %v, want it alive", p, ok)
	}
	in.Close()
}

// A process must not count as gone while there is no descriptor to look at it.
func TestScarceDescriptorsHideNoProcess(t *testing.T) {
	cmd := exec.Command("sleep", "60")
	cmd.Env = append(os.Environ(), UniIDName+"=scarce")
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	defer cmd.Wait()
	defer cmd.Process.Kill()
	p, _ := One(cmd.Process.Pid)
	var all unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_NOFILE, &all); err != nil {
		t.Fatal(err)
	}
	few := all
	few.Cur = 64
	if err := unix.Setrlimit(unix.RLIMIT_NOFILE, &few); err != nil {
		t.Fatal(err)
	}
	defer func() { _ = unix.Setrlimit(unix.RLIMIT_NOFILE, &all) }()
	for name, sees := range map[string]func() bool{
		"Alive": func() bool { return Alive(p.ID) },
		"Read":  func() bool { _, ok := Read()[p.PID]; return ok },
		"UniID": func() bool { return UniID(p.PID) == "scarce" },
	} {
		var fds []int
		fd, err := unix.Dup(2)
		for ; err == nil; fd, err = unix.Dup(2) {
			fds = append(fds, fd)
		}
		time.AfterFunc(50*time.Millisecond, func() {
			for _, fd := range fds {
				unix.Close(fd)
			}
		})
		if !sees() {
			t.Errorf("%s does not see the process", name)
		}
	}
}
