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

	"gpurun/state/host"
)

// held is a file that this process holds: a claim or its run's wish.
type held struct {
	content *content // nil for a wish
	path    string
	file    *os.File // with the lock; closed on exec
	size    int      // size of the file
	over    bool     // its attempt has ended; see HandOver
}

// maxNamesTried bounds how many names are tried for one file.
const maxNamesTried = 20

// create creates and locks a file below the first root that permits it. Other users cannot open the
// file before it is locked, so they cannot delay the lock. create also returns the errors of earlier
// roots.
func create(roots []string, base, suffix string, content any) (k *held, refused []error, err error) {
	refused, err = inFirst(roots, func(dir *os.File) (err error) {
		k, err = createIn(dir, base, suffix, content)
		return err
	})
	return k, refused, err
}

func createIn(dir *os.File, base, suffix string, content any) (*held, error) {
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
			return nil, fmt.Errorf("cannot write to %s: %w", dir.Name(), host.Cause(err)) // the same for each claim, so that it is reported once
		}
	}
	return nil, fmt.Errorf("%s has too many files named like %s", dir.Name(), base)
}

// createAt creates one file. It returns EEXIST if the name is taken.
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
		_, err = f.WriteAt(body, 0) // last, because this makes watchers of the folder read the file
	}
	if err != nil {
		_ = unix.Unlinkat(int(dir.Fd()), name, 0)
		f.Close()
		return nil, err
	}
	return f, nil
}

// lockNew locks a file that was just created. Another process of this user may be reading it, or
// may have removed it, taking it for the claim of a dead holder.
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

// invalidInNames matches the characters that are not allowed in file names.
var invalidInNames = regexp.MustCompile(`[^-_0-9A-Za-z]`)

// fileName returns the n-th file name to try for a uni_id, device or set, without its suffix.
func fileName(id string, n int) string {
	base := invalidInNames.ReplaceAllString(cut(id), "_")
	if n > 0 {
		base += "." + strconv.Itoa(n)
	}
	return base
}

// rewrite changes a file in place, because with a rename a reader might find neither file. A reader
// that sees a partial write reads again. If the write fails, the file is unchanged; at worst, the
// devices of a hand-over then stay claimed too long.
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

// touch updates the times of a claim and its folder.
func (k *held) touch(now time.Time) {
	_ = os.Chtimes(k.path, now, now)
	_ = os.Chtimes(filepath.Dir(k.path), now, now)
}

// end removes the file, then releases the lock.
func (k *held) end() {
	if k == nil {
		return
	}
	if k.linked() {
		_ = os.Remove(k.path)
	}
	k.file.Close()
}

func (k *held) linked() bool { return linked(k.file, k.path) }

const replacementSuffix = ".new" // suffix of a file that will replace another

// replace replaces a file in a user's folder with the result of text, atomically. No other process
// can replace it at the same time.
func replace(dir *os.File, name string, text func() ([]byte, error)) error {
	path := filepath.Join(dir.Name(), name)
	half, err := lockReplacement(path + replacementSuffix)
	if err != nil {
		return fmt.Errorf("cannot write %s: %w", path+replacementSuffix, err)
	}
	defer half.Close()
	body, err := text()
	if err != nil {
		return err
	}
	if err = half.Truncate(0); err == nil {
		_, err = half.WriteAt(append(body, '\n'), 0)
	}
	if err = errors.Join(err, half.Chmod(0o644)); err == nil {
		err = os.Rename(half.Name(), path)
	}
	if err != nil {
		return fmt.Errorf("cannot write %s: %w", path, err)
	}
	return nil
}

// lockReplacement opens and locks the file that will replace another. Only the process that holds
// the lock may write the file, and other users cannot open it.
func lockReplacement(path string) (*os.File, error) {
	for began := time.Now(); time.Since(began) < time.Second; time.Sleep(2 * time.Millisecond) {
		f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE|unix.O_NOFOLLOW|unix.O_NONBLOCK, 0o600)
		if err != nil {
			return nil, err
		}
		if unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB) == nil && linked(f, path) {
			return f, nil
		}
		f.Close()
	}
	return nil, errors.New("locked by another run")
}

// linked reports whether path still refers to the open file f.
func linked(f *os.File, path string) bool {
	var st, at unix.Stat_t
	return unix.Fstat(int(f.Fd()), &st) == nil && unix.Lstat(path, &at) == nil && st.Ino == at.Ino && st.Dev == at.Dev
}
