package uniid

import (
	"bytes"
	"encoding/json"
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
// No more of them than maxOrphans are kept open.
const (
	orphanFor  = 10 * time.Second
	maxOrphans = 64
)

// An orphan is a file that was replaced, and what it held then.
type orphan struct {
	file  *os.File
	base  []byte
	stamp stamp
	at    time.Time
}

// watch takes over a file that was replaced. base is what of it has been merged
// already, and at which stamp.
func (k *Keeper) watch(f *os.File, base []byte, s stamp) {
	unlock(f)
	if len(k.left) == maxOrphans {
		k.left[0].file.Close()
		k.left = k.left[1:]
	}
	k.left = append(k.left, orphan{file: f, base: base, stamp: s, at: time.Now()})
}

// rescue is what scripts have written into files after these were replaced. It is
// told for as long as the files are watched: a script that had read the file
// before may write over it once more.
func (k *Keeper) rescue() []change {
	var all []change
	keep := k.left[:0]
	for _, o := range k.left {
		if time.Since(o.at) > orphanFor {
			o.file.Close()
			continue
		}
		if k.lock(o.file) == nil {
			unlock(o.file)
		}
		all = append(all, o.news()...)
		keep = append(keep, o)
	}
	k.left = keep
	return all
}

// report is the end that a script has written for an attempt, in the file or in
// one that was replaced, or "", and the kind of error that it named.
func (k *Keeper) report(uniID string) (end, errorType string) {
	texts := []json.RawMessage{}
	for _, c := range k.rescue() {
		if c.id == uniID {
			texts = append(texts, c.to)
		}
	}
	if data, err := os.ReadFile(k.path); err == nil {
		if all, err := parse(data); err == nil {
			texts = append(texts, all[uniID])
		}
	}
	for _, text := range texts {
		var r record
		if json.Unmarshal(text, &r) != nil {
			continue
		}
		if r.ended() && end == "" {
			end = r.text("state")
		}
		if errorType == "" {
			errorType = r.text("error_type")
		}
	}
	return end, errorType
}

// news is how an orphan's content differs from what it was; nil when it does not,
// or not yet in a form that parses.
func (o *orphan) news() []change {
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
