package host

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"

	"golang.org/x/sys/unix"
)

func TestLockHolderIsTheLockingProcess(t *testing.T) {
	for name, folder := range map[string]func(*testing.T) string{"plain": (*testing.T).TempDir, "btrfs": onBtrfs} {
		t.Run(name, func(t *testing.T) {
			dir := folder(t)
			f, err := os.Create(filepath.Join(dir, "f"))
			if err != nil {
				t.Fatal(err)
			}
			defer f.Close()
			if pid := LockHolder(f.Name()); pid != 0 {
				t.Errorf("LockHolder of an unlocked file is %d", pid)
			}
			if err := unix.Flock(int(f.Fd()), unix.LOCK_EX); err != nil {
				t.Fatal(err)
			}
			if locks, err := os.ReadFile("/proc/locks"); !strings.Contains(string(locks), fmt.Sprintf(" %d ", os.Getpid())) {
				t.Skipf("/proc/locks does not show locks of this process: %v", err)
			}
			if pid := LockHolder(f.Name()); pid != os.Getpid() {
				t.Errorf("LockHolder of a file that this process has locked is %d", pid)
			}
			if pid := LockHolder(fmt.Sprintf("/proc/self/fd/%d", f.Fd())); pid != os.Getpid() {
				t.Errorf("LockHolder of its descriptor is %d", pid)
			}
			if pid := UserLock(dir, CurrentUID()); pid == 0 {
				t.Error("UserLock finds no lock of this user")
			}
		})
	}
	if uid, ok := Owner(os.Getpid()); !ok || uid != os.Getuid() || !Alive(os.Getpid()) {
		t.Errorf("owner of this process is %d, %v", uid, ok)
	}
}

// onBtrfs returns a folder on btrfs, whose stat shows another device than /proc/locks.
func onBtrfs(t *testing.T) string {
	image, dir := filepath.Join(t.TempDir(), "image"), t.TempDir()
	err := os.WriteFile(image, nil, 0o600)
	if err == nil {
		err = os.Truncate(image, 128<<20)
	}
	if err != nil {
		t.Fatal(err)
	}
	if out, err := exec.Command("sh", "-c", `mkfs.btrfs -q "$0" && mount -o loop "$0" "$1"`, image, dir).CombinedOutput(); err != nil {
		t.Skipf("no btrfs here: %v: %s", err, out)
	}
	t.Cleanup(func() { _ = unix.Unmount(dir, unix.MNT_DETACH) })
	return dir
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
	held := lock("held", unix.LOCK_EX).Name()
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
		if LockHolder(held) != os.Getpid() {
			t.Error("a held lock was not found")
			break
		}
	}
	close(stop)
	churn.Wait()
}
