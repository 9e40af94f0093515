package claim

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"time"

	"golang.org/x/sys/unix"
)

// ownFolder opens this user's folder below root, creating it if necessary. It also
// creates a private root, but never one that all users share. It restores the mode
// of a folder that others could write to.
func ownFolder(root string, private bool) (*os.File, error) {
	f := folder{path: filepath.Join(root, prefix+strconv.Itoa(os.Getuid())), uid: os.Getuid()}
	if private {
		_ = os.MkdirAll(root, 0o700)
	}
	made := unix.Mkdir(f.path, 0o755)
	d, err := openFolder(f)
	if errors.Is(err, unix.ENOENT) {
		err = made
	}
	if err != nil {
		return nil, fmt.Errorf("%s cannot be used: %s", f.path, plain(err))
	}
	fi, err := d.Stat()
	if err == nil && fi.Mode().Perm() != 0o755 {
		err = d.Chmod(0o755) // mkdir's mode is subject to the umask
	}
	if err != nil {
		d.Close()
		return nil, fmt.Errorf("%s cannot be used: %w", f.path, err)
	}
	return d, nil
}

// sweep removes this user's claims that nobody holds.
func sweep(root string) {
	uid := os.Getuid()
	d, err := openFolder(folder{path: filepath.Join(root, prefix+strconv.Itoa(uid)), uid: uid})
	if err != nil {
		return
	}
	defer d.Close()
	ctx, cancel := context.WithTimeout(context.Background(), readLimit)
	defer cancel()
	names, _, _, _ := listNames(ctx, d)
	for _, name := range names {
		if ctx.Err() != nil {
			return
		}
		sweepOne(d, name, uid)
	}
}

// sweepOne removes a claim if nobody holds its lock. It takes the lock first, so
// that whoever is just creating this claim notices and creates it again (lockNew).
func sweepOne(d *os.File, name string, uid int) {
	fd, err := openPlain(d, name, uid)
	if err != nil {
		return
	}
	defer unix.Close(fd)
	if unix.Flock(fd, unix.LOCK_EX|unix.LOCK_NB) == nil {
		_ = unix.Unlinkat(int(d.Fd()), name, 0)
	}
}

// A rivalLock keeps runs that claim at the same time from seeing each other and both
// withdrawing. Nothing depends on it: a run that cannot get it continues without.
type rivalLock struct {
	spent bool // this process has waited for it once, and never will again
}

const (
	rivalWait = 2 * time.Second
	rivalLook = time.Millisecond
)

// take takes the lock on root if it is free in time. The returned func releases it.
func (l *rivalLock) take(ctx context.Context, root string) func() {
	fd, err := unix.Open(root, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return func() {}
	}
	for began := time.Now(); ; {
		err := unix.Flock(fd, unix.LOCK_EX|unix.LOCK_NB)
		if err == nil {
			return func() { unix.Close(fd) }
		}
		if err != unix.EINTR && err != unix.EWOULDBLOCK || l.spent || ctx.Err() != nil {
			break
		}
		if time.Since(began) > rivalWait {
			l.spent = true
			break
		}
		time.Sleep(rivalLook)
	}
	unix.Close(fd)
	return func() {}
}
