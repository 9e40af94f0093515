package host

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"sync"
	"time"

	"golang.org/x/sys/unix"
)

// ErrIrregular is the error for a path that is not a regular file.
var ErrIrregular = errors.New("not a regular file")

// Exists reports whether a path exists and can be looked up.
func Exists(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}

// Open opens for reading a file that another user may control. It does not block, not even on a
// pipe without a writer.
func Open(path string) (*os.File, error) {
	return os.OpenFile(path, os.O_RDONLY|unix.O_NONBLOCK|unix.O_NOCTTY, 0)
}

// OpenReachable is like Open, but refuses files outside the folders given to Confine.
func OpenReachable(path string) (*os.File, error) {
	if err := Within(path); err != nil {
		return nil, err
	}
	f, err := Open(path)
	if err != nil {
		return nil, err
	}
	if err := opened(f); err != nil {
		f.Close()
		return nil, err
	}
	return f, nil
}

// OpenRegular is like OpenReachable, but refuses anything that is not a regular file.
func OpenRegular(path string) (*os.File, fs.FileInfo, error) {
	f, err := OpenReachable(path)
	if err != nil {
		return nil, nil, err
	}
	info, err := f.Stat()
	if err == nil && !info.Mode().IsRegular() {
		err = &fs.PathError{Op: "read", Path: path, Err: ErrIrregular}
	}
	if err != nil {
		f.Close()
		return nil, nil, err
	}
	return f, info, nil
}

// OpenOwn opens one of gpurun's own files. It refuses links and anything else that is not a regular
// file: a planted link could make gpurun overwrite another user's data, and a pipe would block
// forever. It also refuses paths that Confine forbids.
func OpenOwn(path string, flags int, perm os.FileMode) (*os.File, error) {
	if err := Within(filepath.Dir(path)); err != nil {
		return nil, err
	}
	if flags&(os.O_WRONLY|os.O_RDWR) != 0 {
		wrote(path)
	}
	f, err := os.OpenFile(path, flags|unix.O_NOFOLLOW|unix.O_NONBLOCK|unix.O_NOCTTY, perm)
	switch {
	case errors.Is(err, unix.ELOOP):
		return nil, UnexpectedFile(path, "a symbolic link")
	case errors.Is(err, unix.ENXIO), errors.Is(err, unix.EISDIR):
		return nil, UnexpectedFile(path, "not a regular file")
	case err != nil:
		return nil, err
	}
	if fi, err := f.Stat(); err != nil || !fi.Mode().IsRegular() {
		f.Close()
		return nil, UnexpectedFile(path, "not a regular file")
	}
	if err := opened(f); err != nil {
		f.Close()
		return nil, err
	}
	return f, nil
}

// Cause returns an error without its path, for messages that already name the path.
func Cause(err error) error {
	var p *fs.PathError
	if errors.As(err, &p) {
		return p.Err
	}
	return err
}

// NoRoom reports whether an error means that a disk is full or read-only, or that a quota or a limit on
// file size is reached.
func NoRoom(err error) bool {
	return errors.Is(err, unix.ENOSPC) || errors.Is(err, unix.EDQUOT) || errors.Is(err, unix.EFBIG) || errors.Is(err, unix.EROFS)
}

// OutOfFiles reports whether an error means that this process or the system has no free file
// descriptor.
func OutOfFiles(err error) bool { return errors.Is(err, unix.EMFILE) || errors.Is(err, unix.ENFILE) }

// Patiently calls open again until it no longer fails for lack of file descriptors. Use it where
// an unreadable file would count as a missing one, and a job as lost: so it never gives up. Each
// process reports its first long wait.
func Patiently(path string, open func() error) error {
	err := open()
	for began := time.Now(); OutOfFiles(err); err = open() {
		if time.Since(began) > 10*time.Second {
			starved.Do(func() {
				fmt.Fprintf(os.Stderr, "gpurun (pid %d) cannot read %s: %v; waiting until a file is closed (raise ulimit -n or fs.file-max)\n", os.Getpid(), path, Cause(err))
			})
		}
		time.Sleep(10 * time.Millisecond)
	}
	return err
}

var starved sync.Once

// UnexpectedFile returns the error for a path where gpurun finds something that it did not create.
func UnexpectedFile(path, what string) error {
	return fmt.Errorf("%s is %s: remove it, or use another folder (--state-dir)", filepath.Base(path), what)
}

// ReadOwn reads at most limit bytes of one of gpurun's own files.
func ReadOwn(path string, limit int64) ([]byte, error) {
	return lagging(path, func() ([]byte, error) {
		f, err := OpenOwn(path, os.O_RDONLY, 0)
		if err != nil {
			return nil, err
		}
		defer f.Close()
		return io.ReadAll(io.LimitReader(f, limit))
	})
}

// These functions are called when gpurun's own files are read and written. Tests replace them with
// a cache that lags (lagging.go).
var (
	lagging = func(_ string, read func() ([]byte, error)) ([]byte, error) { return read() }
	wrote   = func(string) {}
)
