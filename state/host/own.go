package host

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"
)

// OpenOwn opens a file that gpurun keeps for itself. It never follows a link and
// never takes anything but a regular file: a planted link would have us write to
// somebody's data, and a pipe would make us wait for ever.
func OpenOwn(path string, flags int, perm os.FileMode) (*os.File, error) {
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
	return f, nil
}

// Strange is the error for a name that holds something gpurun did not make.
func Strange(path, what string) error {
	return fmt.Errorf("%s is %s: remove it, or use another folder (--state-dir)", filepath.Base(path), what)
}

// ReadOwn reads a file of gpurun's, at most limit bytes of it.
func ReadOwn(path string, limit int64) ([]byte, error) {
	f, err := OpenOwn(path, os.O_RDONLY, 0)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return io.ReadAll(io.LimitReader(f, limit))
}
