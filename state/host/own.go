package host

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"
)

// ErrIrregular is the error for a path that holds something other than a file's content.
var ErrIrregular = errors.New("not a regular file")

// Exists reports whether a path can be looked up.
func Exists(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}

// Open opens a file of somebody else for reading. It does not block: a pipe without a writer
// would do so forever.
func Open(path string) (*os.File, error) {
	return os.OpenFile(path, os.O_RDONLY|unix.O_NONBLOCK|unix.O_NOCTTY, 0)
}

// OpenReachable is Open as far as Confine allows it.
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

// OpenRegular is OpenReachable for a regular file.
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

// OpenOwn opens one of gpurun's own files. It refuses links and anything else that
// is not a regular file: a planted link could make us overwrite somebody's data, and
// a pipe would block forever. It goes nowhere that Confine forbids.
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
		return nil, Strange(path, "a symbolic link")
	case errors.Is(err, unix.ENXIO), errors.Is(err, unix.EISDIR):
		return nil, Strange(path, "not a regular file")
	case err != nil:
		return nil, err
	}
	if fi, err := f.Stat(); err != nil || !fi.Mode().IsRegular() {
		f.Close()
		return nil, Strange(path, "not a regular file")
	}
	if err := opened(f); err != nil {
		f.Close()
		return nil, err
	}
	return f, nil
}

// Cause returns an error without the path that it names, for messages that name it already.
func Cause(err error) error {
	var p *fs.PathError
	if errors.As(err, &p) {
		return p.Err
	}
	return err
}

// Strange returns the error for a path that holds something gpurun did not create.
func Strange(path, what string) error {
	return fmt.Errorf("%s is %s: remove it, or use another folder (--state-dir)", filepath.Base(path), what)
}

// ownUsual is the usual size limit of gpurun's own files.
const ownUsual = 8 << 10

// ReadOwn reads at most limit bytes of one of gpurun's own files.
func ReadOwn(path string, limit int64) ([]byte, error) {
	return lagging(path, func() ([]byte, error) {
		f, err := OpenOwn(path, os.O_RDONLY, 0)
		if err != nil {
			return nil, err
		}
		defer f.Close()
		var b bytes.Buffer
		b.Grow(int(min(limit, ownUsual)) + bytes.MinRead) // most are read at once
		_, err = b.ReadFrom(io.LimitReader(f, limit))
		return b.Bytes(), err
	})
}

// What reading and writing own files goes through: in tests a cache that lags (lagging.go).
var (
	lagging = func(_ string, read func() ([]byte, error)) ([]byte, error) { return read() }
	wrote   = func(string) {}
)
