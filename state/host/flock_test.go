package host

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"

	"golang.org/x/sys/unix"
)

func TestLockHolderIsTheLockingProcess(t *testing.T) {
	f, err := os.Create(filepath.Join(t.TempDir(), "f"))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	var st unix.Stat_t
	if err := unix.Fstat(int(f.Fd()), &st); err != nil {
		t.Fatal(err)
	}
	if pid := LockHolder(st.Dev, st.Ino); pid != 0 {
		t.Errorf("LockHolder of an unlocked file is %d", pid)
	}
	if err := unix.Flock(int(f.Fd()), unix.LOCK_EX); err != nil {
		t.Fatal(err)
	}
	locks, err := os.ReadFile("/proc/locks")
	if !strings.Contains(string(locks), fmt.Sprintf("%d %02x:%02x:%d ", os.Getpid(), unix.Major(st.Dev), unix.Minor(st.Dev), st.Ino)) {
		t.Skipf("/proc/locks does not show the lock under the file's device: %v", err)
	}
	if pid := LockHolder(st.Dev, st.Ino); pid != os.Getpid() {
		t.Errorf("LockHolder of a file that this process has locked is %d", pid)
	}
	if uid, ok := Owner(os.Getpid()); !ok || uid != os.Getuid() || !Alive(os.Getpid()) {
		t.Errorf("owner of this process is %d, %v", uid, ok)
	}
}

func TestParseLockSkipsOtherKinds(t *testing.T) {
	const dev = 0x08<<8 | 0x1f
	for line, want := range map[string]int{
		"1: FLOCK  ADVISORY  WRITE 4711 08:1f:99 0 EOF":    4711,
		"1: FLOCK  ADVISORY  READ  4711 08:1f:99 0 EOF":    4711,
		"1: -> FLOCK  ADVISORY  WRITE 4711 08:1f:99 0 EOF": 0,
		"1: POSIX  ADVISORY  WRITE 4711 08:1f:99 0 EOF":    0,
		"1: FLOCK  ADVISORY  WRITE 4711 08:1e:99 0 EOF":    0,
		"1: FLOCK  ADVISORY  WRITE 4711 08:1f:98 0 EOF":    0,
		"1: FLOCK  ADVISORY  WRITE -1 08:1f:99 0 EOF":      0,
		"1: FLOCK  ADVISORY  WRITE 4711 08:1f 0 EOF":       0,
		"": 0,
	} {
		l, ok := parseLock([]byte(line))
		if ok = ok && l.on(dev) && l.ino == 99; ok != (want != 0) || ok && l.pid != want {
			t.Errorf("%q: %+v, %v, want %d", line, l, ok, want)
		}
	}
}

// The kernel returns /proc/locks a page at a time. So a lock that is released between two pages
// could hide another one.
func TestLockIsFoundWhileOthersComeAndGo(t *testing.T) {
	dir := t.TempDir()
	lock := func(name string, how int) *os.File {
		f, err := os.Create(filepath.Join(dir, name))
		if err == nil {
			err = unix.Flock(int(f.Fd()), how)
		}
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { f.Close() })
		return f
	}
	var st unix.Stat_t
	if err := unix.Fstat(int(lock("held", unix.LOCK_EX).Fd()), &st); err != nil {
		t.Fatal(err)
	}
	var others []*os.File
	for i := range 300 {
		others = append(others, lock(strconv.Itoa(i), unix.LOCK_EX))
	}
	stop := make(chan struct{})
	var churn sync.WaitGroup
	churn.Go(func() {
		for how := unix.LOCK_UN; ; how ^= unix.LOCK_UN ^ unix.LOCK_EX {
			for _, f := range others {
				_ = unix.Flock(int(f.Fd()), how)
			}
			select {
			case <-stop:
				return
			default:
			}
		}
	})
	for range 1500 {
		if LockHolder(st.Dev, st.Ino) != os.Getpid() {
			t.Error("a held lock was not found")
			break
		}
	}
	close(stop)
	churn.Wait()
}
