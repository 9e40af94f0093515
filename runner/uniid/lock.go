package uniid

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"io/fs"
	"os"
	"time"

	"golang.org/x/sys/unix"
)

// lock takes both kinds of lock that scripts use (flock, and fcntl as lockf does), or
// neither. Closing the file releases them. A lock held by another process shows that scripts
// lock this file.
func (k *maintainer) lock(f *os.File) error {
	err := unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB)
	if err == nil {
		err = unix.FcntlFlock(f.Fd(), unix.F_OFD_SETLK, &unix.Flock_t{Type: unix.F_WRLCK})
	}
	if errors.Is(err, unix.EAGAIN) || errors.Is(err, unix.EACCES) {
		k.inPlace = true
		return errBusy
	}
	return nil // on a file system without locks, scripts cannot lock either
}

func unlock(f *os.File) {
	_ = unix.Flock(int(f.Fd()), unix.LOCK_UN)
	_ = unix.FcntlFlock(f.Fd(), unix.F_OFD_SETLK, &unix.Flock_t{Type: unix.F_UNLCK})
}

// orphanFor is how long a replaced file is watched: a script that had opened it before may still
// write to it. At most maxOrphans replaced files are kept open.
const (
	orphanFor  = 10 * time.Second
	maxOrphans = 64
)

// An orphan is a file that was replaced, with its content at that time.
type orphan struct {
	file *os.File
	base []byte
	read fs.FileInfo // info of the file when it contained base
	at   time.Time
}

// watch watches a file that is being replaced. base is its content, already merged; read is the
// file's info when it contained base.
func (k *maintainer) watch(path string, base []byte, read fs.FileInfo) {
	f, err := os.OpenFile(path, os.O_RDWR|unix.O_NONBLOCK, 0)
	if err != nil { // the file may belong to another user
		f, err = os.OpenFile(path, os.O_RDONLY|unix.O_NONBLOCK, 0)
	}
	if err != nil {
		return // later changes to the file are lost, but its content is already merged
	}
	if len(k.left) == maxOrphans {
		k.left[0].file.Close()
		k.left = k.left[1:]
	}
	k.left = append(k.left, orphan{f, base, read, time.Now()})
}

// rescue returns the changes that scripts made to files after gpurun replaced them. It returns the
// same changes again while it watches the files, because a script with an old copy may overwrite
// the current file again.
func (k *maintainer) rescue() []change {
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
		all = append(all, o.changes()...)
		keep = append(keep, o)
	}
	k.left = keep
	return all
}

// report returns the end and the error type that a script has written for an attempt, in the file
// or in a replaced one. Each is "" if there is none.
func (k *maintainer) report(uniID string) (end, errorType string) {
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

// changes returns the changes to an orphan's content; nil if there are none or it does not parse
// yet.
func (o *orphan) changes() []change {
	info, err := o.file.Stat()
	if err != nil || unchanged(info, o.read) {
		return nil
	}
	data, err := io.ReadAll(io.NewSectionReader(o.file, 0, info.Size()))
	if err != nil || bytes.Equal(data, o.base) {
		return nil
	}
	return difference(o.base, data)
}

func (k *maintainer) close() {
	for _, o := range k.left {
		o.file.Close()
	}
	k.left = nil
}
