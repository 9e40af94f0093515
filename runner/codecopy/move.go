package codecopy

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"sync/atomic"

	"golang.org/x/sys/unix"
)

// move moves a file, over what is there. At any moment its path in the copy and its original's
// lead to one of the two contents, and a process that has it open goes on writing to it.
func (t *Tree) move(rel string) error {
	tmp, err := t.beside(rel)
	if err == nil {
		err = os.Rename(tmp, t.original(rel))
	}
	if err != nil {
		os.Remove(tmp)
		return err
	}
	return t.link(rel)
}

// errOther says that the work dir has got another version of a file in the last moment: from its
// user, or from another run's copy.
var errOther = errors.New("the work dir has another version")

// moveFor is move, over this version of the original alone, or with nil where there is none.
func (t *Tree) moveFor(rel string, there fs.FileInfo) error {
	tmp, err := t.beside(rel)
	defer os.Remove(tmp)
	to, how := t.original(rel), uint(unix.RENAME_NOREPLACE)
	if there != nil {
		how = unix.RENAME_EXCHANGE
	}
	if err == nil {
		err = unix.Renameat2(unix.AT_FDCWD, tmp, unix.AT_FDCWD, to, how)
	}
	switch {
	case errors.Is(err, unix.EINVAL) || errors.Is(err, unix.ENOSYS): // this file system can only replace
		err = os.Rename(tmp, to)
	case errors.Is(err, fs.ErrExist):
		return errOther
	case err == nil && there != nil:
		was, lost := os.Lstat(tmp)
		if lost == nil && !(os.SameFile(was, there) && was.Size() == there.Size() && was.ModTime().Equal(there.ModTime())) {
			_ = unix.Renameat2(unix.AT_FDCWD, tmp, unix.AT_FDCWD, to, how)
			return errOther
		}
	}
	if err != nil {
		return err
	}
	return t.link(rel)
}

// beside gives a file of the copy a temporary name beside its original.
func (t *Tree) beside(rel string) (tmp string, err error) {
	tmp = temporary(filepath.Dir(t.original(rel)))
	if err = os.Link(t.at(rel), tmp); err != nil { // another file system, or one without hard links
		_, err = duplicate(t.at(rel), tmp)
	}
	return tmp, err
}

// moveFolder moves a new folder to where nothing is, while processes use it: the folder and a
// link that already leads to its new place change places at once. It fails where the file
// system cannot do that.
func (t *Tree) moveFolder(rel string) error {
	from, to := t.at(rel), t.original(rel)
	if err := os.Symlink(to, to); err != nil {
		return err
	}
	err := unix.Renameat2(unix.AT_FDCWD, from, unix.AT_FDCWD, to, unix.RENAME_EXCHANGE)
	if err != nil {
		os.Remove(to)
		return err
	}
	t.Items[rel] = &item{Original: true}
	return nil
}

// links numbers temporary names.
var links atomic.Int64

func temporary(dir string) string {
	return filepath.Join(dir, ".gpurun-"+strconv.Itoa(os.Getpid())+"-"+strconv.FormatInt(links.Add(1), 10))
}

// link replaces a file of the copy by a link to the original, without a moment between.
func (t *Tree) link(rel string) error {
	t.Items[rel] = &item{Original: true}
	tmp := temporary(filepath.Dir(t.at(rel)))
	if err := os.Symlink(t.original(rel), tmp); err != nil {
		return err
	}
	return os.Rename(tmp, t.at(rel))
}
