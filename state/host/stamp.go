package host

import (
	"os"
	"syscall"
)

// A Stamp identifies a version of a file; all missing files have the same stamp.
type Stamp struct {
	dev, ino uint64
	size     int64
	ctime    syscall.Timespec // also changes with the mode
}

// StampOf returns the stamp of a file.
func StampOf(path string) Stamp {
	fi, err := os.Stat(path)
	if err != nil {
		return Stamp{}
	}
	st := fi.Sys().(*syscall.Stat_t)
	return Stamp{st.Dev, st.Ino, fi.Size(), st.Ctim}
}
