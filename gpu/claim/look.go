package claim

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

var (
	errGone     = errors.New("nobody holds it") // left by a dead holder: no reason to warn
	errHalfMade = errors.New("it is still being written")
)

// maxNamed is how many files of one user are named in warnings.
const maxNamed = 5

// safely calls read for f. If what others put there makes it panic, the process
// survives and the folder counts as not read completely.
func (s *sight) safely(f folder, read func()) {
	defer func() {
		if p := recover(); p != nil {
			s.short = true
			s.warn("%s could not be read: internal error: %v", f.path, p)
		}
	}()
	read()
}

// read reads one user's folder into s.
func (s *sight) read(ctx context.Context, f folder) {
	d, err := openFolder(f)
	if err != nil {
		if !errors.Is(err, unix.ENOENT) && !s.unreadable(f, f.path, err) {
			s.warn("ignoring %s: %v", f.path, plain(err))
		}
		return
	}
	defer d.Close()
	names, strange, more, err := listNames(ctx, d)
	if err != nil {
		s.unreadable(f, f.path, err)
	}
	defer func() { s.short = s.short || ctx.Err() != nil }()
	refused, seen := 0, map[uint64]bool{}
	for i, name := range names {
		if ctx.Err() != nil || i == maxOpened || len(seen) == maxRead {
			more = true
			break
		}
		c, err := open(d, name, f.uid)
		switch {
		case err == nil:
			if !seen[c.ino] { // one file may have several names
				seen[c.ino] = true
				s.found = append(s.found, c)
			}
		case s.unreadable(f, f.path+"/"+name, err):
		case errors.Is(err, errGone), errors.Is(err, errHalfMade), errors.Is(err, unix.ENOENT):
		default:
			if refused++; refused <= maxNamed {
				s.warn("ignoring %s/%s: %v", f.path, name, plain(err))
			}
		}
	}
	if refused > maxNamed {
		s.warn("%s: further entries ignored", f.path)
	}
	if strange != "" {
		s.warn("%s contains %s, which is not a claim", f.path, strange)
	}
	if more {
		s.tooMany(f)
	}
}

// listNames returns the names of claims, one other name if there is any, and whether
// the folder has more names than it reads.
func listNames(ctx context.Context, d *os.File) (names []string, strange string, more bool, err error) {
	for n := 0; ; {
		batch, err := d.Readdirnames(512)
		for _, name := range batch {
			if strings.HasSuffix(name, suffix) {
				names = append(names, name)
			} else if strange == "" {
				strange = name
			}
		}
		n += len(batch)
		if errors.Is(err, io.EOF) {
			return names, strange, false, nil
		}
		if err != nil || n >= maxNames || ctx.Err() != nil {
			return names, strange, err == nil, err
		}
	}
}

// open reads a claim of user uid. Nothing blocks it: no FIFO, device or write lease.
func open(d *os.File, name string, uid int) (*content, error) {
	fd, err := openPlain(d, name, uid)
	if err != nil {
		return nil, err
	}
	defer unix.Close(fd)
	if err := unix.Flock(fd, unix.LOCK_SH|unix.LOCK_NB); err != unix.EWOULDBLOCK {
		return nil, errGone // closing releases the lock if it was free
	}
	c, err := readContent(fd)
	if err != nil && !errors.Is(err, errHalfMade) {
		time.Sleep(5 * time.Millisecond) // it may be half written
		c, err = readContent(fd)
	}
	switch {
	case err != nil:
		return nil, err
	case c.UID != uid:
		return nil, fmt.Errorf("it claims for uid %d but belongs to uid %d", c.UID, uid)
	}
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil {
		return nil, err
	}
	c.ino = st.Ino
	return c, c.exists()
}

// openPlain opens a file if it can be a claim of user uid. It checks the file before
// opening, since opening a device may have effects, and again after, since it may
// have been replaced in between.
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
		return -1, errHalfMade // a claim becomes readable once it is locked and written
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

// trust returns an error unless a file can be a claim: a regular file of that user,
// of limited size. It may have several links: others can create those.
func trust(st *unix.Stat_t, uid int) error {
	switch {
	case st.Mode&unix.S_IFMT == unix.S_IFLNK:
		return errors.New("it is a symbolic link")
	case st.Mode&unix.S_IFMT != unix.S_IFREG:
		return errors.New("it is not a regular file")
	case int(st.Uid) != uid:
		return fmt.Errorf("it belongs to uid %d", st.Uid)
	case st.Nlink == 0:
		return errGone
	case st.Size > maxSize:
		return fmt.Errorf("it has %d bytes", st.Size)
	}
	return nil
}

func readContent(fd int) (*content, error) {
	b := make([]byte, 4096)
	n, err := unix.Pread(fd, b, 0)
	if err != nil {
		return nil, err
	}
	if n == 0 {
		return nil, errHalfMade
	}
	if n == len(b) {
		b = append(b, make([]byte, maxSize-len(b))...)
		more, err := unix.Pread(fd, b[n:], int64(n))
		if err != nil {
			return nil, err
		}
		n += more
	}
	return parse(b[:n])
}

// plain describes an error of the kernel.
func plain(err error) string {
	switch {
	case errors.Is(err, unix.ELOOP):
		return "it is a symbolic link"
	case errors.Is(err, unix.ENOTDIR):
		return "it is not a folder"
	case errors.Is(err, unix.EWOULDBLOCK):
		return "its owner has a lease on it"
	case errors.Is(err, unix.ENXIO):
		return "it is a socket, or a device that does not exist"
	}
	return err.Error()
}
