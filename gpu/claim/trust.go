package claim

import (
	"errors"
	"fmt"
	"os"
	"time"

	"golang.org/x/sys/unix"

	"gpurun/state/host"
)

const errGone = staticError("no process holds it") // left by a dead holder: no warning

var errIncomplete = errors.New("it is still being written")

// A staticError is a reason to ignore a file. It holds until the file's folder changes.
type staticError string

func (e staticError) Error() string { return string(e) }

// openFolder opens a user's folder if it is a directory that the user owns.
func openFolder(f folder) (*os.File, error) {
	fd, err := unix.Open(f.path, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_NOFOLLOW|unix.O_NONBLOCK|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, err
	}
	d := os.NewFile(uintptr(fd), f.path)
	var st unix.Stat_t
	if err = unix.Fstat(fd, &st); err == nil && !owns(st.Uid, f.uid) {
		err = fmt.Errorf("it belongs to uid %d, not the uid in its name", st.Uid)
	}
	if err != nil {
		d.Close()
		return nil, err
	}
	return d, nil
}

// owns reports whether the owner of a file, as this process sees it, is the host's user uid. If a
// container hides the owner, the owner cannot be this user, and any other user is accepted.
func owns(seen uint32, uid int) bool {
	if of := host.HostUID(int(seen)); of >= 0 {
		return of == uid
	}
	return int(seen) == uid || uid != host.CurrentUID()
}

// A record is the content of a file in a user's folder: a claim or a wish.
type record interface{ maker() identity }

// open reads a record of user uid, and returns the inode of its file. No FIFO, device or write lease
// can block it.
func open[T record](d *os.File, name string, uid int, parse func([]byte) (T, error)) (r T, ino uint64, err error) {
	fd, err := openPlain(d, name, uid)
	if err != nil {
		return r, 0, err
	}
	defer unix.Close(fd)
	if err := unix.Flock(fd, unix.LOCK_SH|unix.LOCK_NB); err == nil || host.NoLocks(err) { // closing the file releases the lock
		var st unix.Stat_t
		if err := unix.Fstat(fd, &st); err != nil || st.Mode&0o444 != 0o444 {
			return r, 0, errIncomplete // createAt has not locked it yet
		}
		return r, 0, errGone
	}
	r, ino, err = readRecord(fd, parse)
	if err != nil && !errors.Is(err, errIncomplete) {
		time.Sleep(5 * time.Millisecond) // the file may be partly written
		r, ino, err = readRecord(fd, parse)
	}
	if err != nil {
		return r, ino, err
	}
	if claimed := r.maker().UID; claimed != uid {
		return r, ino, fmt.Errorf("it names uid %d but belongs to uid %d", claimed, uid)
	}
	return r, ino, r.maker().exists()
}

// openPlain opens a file if it can be a claim of user uid. It checks the file before opening it,
// because opening a device may have effects, and again afterwards, because the file may have been
// replaced in between.
func openPlain(d *os.File, name string, uid int) (int, error) {
	var st unix.Stat_t
	if err := unix.Fstatat(int(d.Fd()), name, &st, unix.AT_SYMLINK_NOFOLLOW); err != nil {
		return -1, err
	}
	if err := trust(&st, uid); err != nil {
		return -1, err
	}
	fd, err := unix.Openat(int(d.Fd()), name, unix.O_RDONLY|unix.O_NOFOLLOW|unix.O_NONBLOCK|unix.O_NOCTTY|unix.O_CLOEXEC, 0)
	if err == unix.EACCES {
		return -1, errIncomplete // a claim becomes readable once it is locked and written
	}
	if err != nil {
		return -1, err
	}
	if err = unix.Fstat(fd, &st); err == nil {
		err = trust(&st, uid)
	}
	if err != nil {
		unix.Close(fd)
	}
	return fd, err
}

// readPlain reads a file that openPlain accepts.
func readPlain(d *os.File, name string, uid int) ([]byte, error) {
	fd, err := openPlain(d, name, uid)
	if err != nil {
		return nil, err
	}
	defer unix.Close(fd)
	b, _, err := readOpen(fd)
	return b, err
}

// readOpen returns the content and the inode of an open file.
func readOpen(fd int) (b []byte, ino uint64, err error) {
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil {
		return nil, 0, err
	}
	b = make([]byte, min(st.Size, maxSize))
	n, err := unix.Pread(fd, b, 0)
	return b[:max(0, n)], st.Ino, err
}

// trust returns an error unless a file can be a claim: a regular file of that user, of limited
// size. It may have several links, because other users can create links to it.
func trust(st *unix.Stat_t, uid int) error {
	switch {
	case st.Mode&unix.S_IFMT == unix.S_IFLNK:
		return staticError("it is a symbolic link")
	case st.Mode&unix.S_IFMT != unix.S_IFREG:
		return staticError("it is not a regular file")
	case !owns(st.Uid, uid):
		return staticError(fmt.Sprintf("it belongs to uid %d", st.Uid))
	case st.Nlink == 0:
		return errGone
	case st.Size > maxSize:
		return staticError(fmt.Sprintf("it is too large: %d bytes", st.Size))
	}
	return nil
}

func readRecord[T record](fd int, parse func([]byte) (T, error)) (r T, ino uint64, err error) {
	b, ino, err := readOpen(fd)
	if err == nil && len(b) == 0 {
		err = errIncomplete
	}
	if err == nil {
		r, err = parse(b)
	}
	return r, ino, err
}

// plain describes a kernel error.
func plain(err error) string {
	switch {
	case errors.Is(err, unix.ELOOP):
		return "it is a symbolic link"
	case errors.Is(err, unix.ENOTDIR):
		return "it is not a folder"
	case errors.Is(err, unix.EWOULDBLOCK):
		return "its owner holds a file lease on it"
	case errors.Is(err, unix.ENXIO):
		return "it is a socket, or a device that does not exist"
	}
	return err.Error()
}
