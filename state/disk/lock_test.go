package disk

import (
	"encoding/json"
	"errors"
	"gpurun/state/host"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// If a run is killed while it starts a child, the child holds the lock until its exec. A new run
// must wait for that, and not report that a dead process is running the file.
func TestLockOfDeadRunIsAwaited(t *testing.T) {
	gone := exec.Command("true")
	if err := gone.Run(); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		name string
		pid  int
		want bool
	}{{"dead", gone.Process.Pid, true}, {"alive", os.Getppid(), false}} {
		t.Run(c.name, func(t *testing.T) {
			dir := t.TempDir()
			f, err := os.Create(filepath.Join(dir, lockName))
			if err != nil {
				t.Fatal(err)
			}
			defer f.Close()
			if err := unix.Flock(int(f.Fd()), unix.LOCK_EX); err != nil {
				t.Fatal(err)
			}
			h := holder{PID: c.pid, Host: host.Name(), Boot: host.BootID(), Since: time.Now()}
			if err := json.NewEncoder(f).Encode(h); err != nil {
				t.Fatal(err)
			}
			fd := int(f.Fd())
			if c.want { // the dead run's child releases the lock
				defer time.AfterFunc(10*askWait, func() { _ = unix.Flock(fd, unix.LOCK_UN) }).Stop()
			}
			l, err := takeLock("jobs.yaml", dir)
			var locked *LockedError
			if got := err == nil; got != c.want || !got && !errors.As(err, &locked) {
				t.Errorf("takeLock: %v, want success %v", err, c.want)
			}
			if l != nil {
				l.Close()
			}
		})
	}
}
