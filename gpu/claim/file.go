package claim

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"time"

	"golang.org/x/sys/unix"
)

// held is a file that this process holds: a claim, or its wish.
type held struct {
	content *content // nil for a wish
	path    string
	file    *os.File // with the lock; closed on exec
	size    int      // of the file
	over    bool     // its attempt has ended, see HandOver
}

// maxNamesTried bounds the names tried for one file.
const maxNamesTried = 20

// create makes a file below root and locks it. Until it is locked no other user can open
// it, so none can delay it.
func create(root string, private bool, base, suffix string, content any) (*held, error) {
	dir, err := ownFolder(root, private)
	if err != nil {
		return nil, err
	}
	defer dir.Close()
	body, err := encode(content, 0)
	if err != nil {
		return nil, err
	}
	for n := range maxNamesTried {
		name := fileName(base, n) + suffix
		f, err := createAt(dir, name, body)
		if err == nil {
			return &held{path: filepath.Join(dir.Name(), name), file: f, size: len(body)}, nil
		}
		if !errors.Is(err, unix.EEXIST) {
			return nil, fmt.Errorf("%s cannot be written: %w", filepath.Join(dir.Name(), name), err)
		}
	}
	return nil, fmt.Errorf("%s has too many files of %s", dir.Name(), base)
}

// createAt makes one file. It returns EEXIST if its name is taken.
func createAt(dir *os.File, name string, body []byte) (*os.File, error) {
	fd, err := unix.Openat(int(dir.Fd()), name, unix.O_RDWR|unix.O_CREAT|unix.O_EXCL|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0o600)
	if err != nil {
		return nil, err
	}
	f := os.NewFile(uintptr(fd), name)
	if err = lockNew(fd); err == nil {
		err = f.Chmod(0o644)
	}
	if err == nil {
		_, err = f.WriteAt(body, 0) // last: whoever watches the folder reads it now
	}
	if err != nil {
		_ = unix.Unlinkat(int(dir.Fd()), name, 0)
		f.Close()
		return nil, err
	}
	return f, nil
}

// lockNew locks a file that was just created. Another process of this user may be
// reading it, or may have mistaken it for a dead holder's claim and removed it.
func lockNew(fd int) error {
	for began := time.Now(); ; time.Sleep(time.Millisecond) {
		err := unix.Flock(fd, unix.LOCK_EX|unix.LOCK_NB)
		if err == nil {
			break
		}
		if err != unix.EWOULDBLOCK && err != unix.EINTR {
			return err
		}
		if time.Since(began) > 200*time.Millisecond {
			return unix.EEXIST
		}
	}
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil {
		return err
	}
	if st.Nlink == 0 {
		return unix.EEXIST
	}
	return nil
}

// unfit is what a file name does not take from a uni_id.
var unfit = regexp.MustCompile(`[^-_0-9A-Za-z]`)

// fileName returns the n-th file name to try, without its suffix.
func fileName(uniID string, n int) string {
	base := unfit.ReplaceAllString(cut(uniID), "_")
	if n > 0 {
		base += "." + strconv.Itoa(n)
	}
	return base
}

// rewrite changes a file in place: with a rename, a reader might find neither file. A
// reader that sees half a write reads again. If the write fails the file stays as it was,
// which at worst holds a hand-over's devices for too long.
func (k *held) rewrite(content any) error {
	body, err := encode(content, k.size)
	if err == nil {
		_, err = k.file.WriteAt(body, 0)
	}
	if err == nil {
		k.size = len(body)
	}
	return err
}

// touch makes a claim and its folder look used.
func (k *held) touch(now time.Time) {
	times := []unix.Timeval{unix.NsecToTimeval(now.UnixNano()), unix.NsecToTimeval(now.UnixNano())}
	_ = unix.Futimes(int(k.file.Fd()), times)
	_ = unix.Utimes(filepath.Dir(k.path), times)
}

// end removes the file before it releases the lock.
func (k *held) end() {
	if k == nil {
		return
	}
	if k.linked() {
		_ = os.Remove(k.path)
	}
	k.file.Close()
}

// linked reports whether the claim's file is still where it was created.
func (k *held) linked() bool {
	var st, at unix.Stat_t
	return unix.Fstat(int(k.file.Fd()), &st) == nil && unix.Lstat(k.path, &at) == nil && st.Ino == at.Ino && st.Dev == at.Dev
}
