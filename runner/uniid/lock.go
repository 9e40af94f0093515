package uniid

import (
	"bytes"
	"errors"
	"io"
	"os"
	"time"

	"golang.org/x/sys/unix"
)

// lock takes both kinds of lock that scripts take (flock; lockf, which is
// fcntl's), or neither. Closing the file gives them back. A lock that somebody
// holds shows that the file is one that scripts lock.
func (k *Keeper) lock(f *os.File) error {
	err := unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB)
	if err == nil {
		err = unix.FcntlFlock(f.Fd(), unix.F_OFD_SETLK, &unix.Flock_t{Type: unix.F_WRLCK})
	}
	if errors.Is(err, unix.EAGAIN) || errors.Is(err, unix.EACCES) {
		k.inPlace = true
		return ErrBusy
	}
	return nil // a file system without locks has no scripts that lock
}

func unlock(f *os.File) {
	_ = unix.Flock(int(f.Fd()), unix.LOCK_UN)
	_ = unix.FcntlFlock(f.Fd(), unix.F_OFD_SETLK, &unix.Flock_t{Type: unix.F_UNLCK})
}

// orphanFor is how long a file that was replaced is watched: a script that had
// opened it before, and waited for its lock or just then wrote, writes into it.
const orphanFor = 10 * time.Second

// An orphan is a file that was replaced, and what it held then.
type orphan struct {
	file  *os.File
	base  []byte
	stamp stamp
	at    time.Time
	told  bool // what it says has been handed to a flush
}

// rescue is what scripts have written into files after these were replaced.
func (k *Keeper) rescue() patch {
	var all patch
	keep := k.left[:0]
	for _, o := range k.left {
		if o.told || time.Since(o.at) > orphanFor {
			o.file.Close()
			continue
		}
		if k.lock(o.file) == nil {
			unlock(o.file)
		}
		if p := o.news(); p != nil {
			all = all.and(p)
			o.told = true
		}
		keep = append(keep, o)
	}
	k.left = keep
	return all
}

// news is how an orphan's content differs from what it was; nil when it does not,
// or not yet in a form that parses.
func (o *orphan) news() patch {
	info, err := o.file.Stat()
	if err != nil || stampOf(info) == o.stamp {
		return nil
	}
	data, err := io.ReadAll(io.NewSectionReader(o.file, 0, info.Size()))
	if err != nil || bytes.Equal(data, o.base) {
		return nil
	}
	return difference(o.base, data)
}

// close gives up the orphans.
func (k *Keeper) close() {
	for _, o := range k.left {
		o.file.Close()
	}
	k.left = nil
}
