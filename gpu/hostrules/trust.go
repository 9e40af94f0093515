package hostrules

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"
)

const maxSize = 1 << 20

// trusted reads a file that only its owner can have written. It returns os.ErrNotExist if there is
// none.
func trusted(at Place) ([]byte, error) {
	folder, name := filepath.Split(at.Path)
	dir, err := unix.Open(folder, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, cannotRead(folder, err)
	}
	defer unix.Close(dir)
	if err := owned(at.Owner, dir, filepath.Clean(folder)); err != nil {
		return nil, err
	}
	fd, err := unix.Openat(dir, name, unix.O_RDONLY|unix.O_NOFOLLOW|unix.O_NONBLOCK|unix.O_NOCTTY|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, cannotRead(at.Path, err)
	}
	if err := owned(at.Owner, fd, at.Path); err != nil {
		unix.Close(fd)
		return nil, err
	}
	return content(fd, at.Path)
}

// anyones reads a file without trusting its writer.
func anyones(path string) ([]byte, error) {
	fd, err := unix.Open(path, unix.O_RDONLY|unix.O_NONBLOCK|unix.O_NOCTTY|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, fmt.Errorf("cannot read %s=%s: %w", Variable, path, err)
	}
	return content(fd, path)
}

// content reads and closes an open file.
func content(fd int, path string) ([]byte, error) {
	f := os.NewFile(uintptr(fd), path)
	defer f.Close()
	info, err := f.Stat()
	switch {
	case err != nil:
		return nil, cannotRead(path, err)
	case !info.Mode().IsRegular():
		return nil, fmt.Errorf("%s is not a regular file", path)
	case info.Size() > maxSize:
		return nil, fmt.Errorf("%s is too large: %d bytes (limit %d)", path, info.Size(), maxSize)
	}
	data, err := io.ReadAll(io.LimitReader(f, maxSize))
	if err != nil {
		return nil, cannotRead(path, err)
	}
	return data, nil
}

// owned returns an error unless an open file belongs to a user and no one else can write to it. An
// access control list that gives others write permission shows in the mode's group bits.
func owned(owner, fd int, path string) error {
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil {
		return cannotRead(path, err)
	}
	who := "root"
	if owner != 0 {
		who = fmt.Sprintf("uid %d", owner)
	}
	switch {
	case int(st.Uid) != owner:
		return fmt.Errorf("%s belongs to uid %d, not to %s", path, st.Uid, who)
	case st.Mode&0o022 != 0:
		return fmt.Errorf("%s is writable by users other than %s (mode %04o): run chmod go-w %s", path, who, st.Mode&0o7777, path)
	}
	return nil
}

func cannotRead(path string, err error) error {
	switch {
	case errors.Is(err, os.ErrNotExist):
		return os.ErrNotExist
	case errors.Is(err, unix.ELOOP):
		return fmt.Errorf("%s is a symbolic link", path)
	case errors.Is(err, os.ErrPermission):
		return fmt.Errorf("cannot read %s: permission denied (its owner can run chmod a+r on it)", path)
	}
	return fmt.Errorf("cannot read %s: %w", path, err)
}
