package disk

import (
	"cmp"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"golang.org/x/sys/unix"

	"gpurun/gpu"
	"gpurun/state/host"
)

// A Place is where the state of job files would be kept, as determined by CheckPlace.
type Place struct {
	Dir   string        // the folder, or its closest parent that exists
	Free  gpu.Bytes     // -1 if unknown
	Files int64         // number of files that can still be created; -1 if unknown
	Ahead time.Duration // how far the clock of its file system is ahead of this host's: a file server has its own clock
}

// CheckPlace returns an error if the state of job files in dir cannot be kept in stateDir, or in
// dir/.gpurun if stateDir is "". It uses the same checks as Open and leaves no files behind.
func CheckPlace(dir, stateDir string) (p Place, err error) {
	parent := cmp.Or(stateDir, filepath.Join(dir, hidden))
	if parent, err = filepath.Abs(parent); err != nil {
		return p, err
	}
	if stateDir == "" {
		if err := in(parent, trusted(parent, dir, unix.S_ISVTX)); err != nil {
			return p, err
		}
	}
	p.Dir = parent
	for {
		if _, err := os.Stat(p.Dir); !errors.Is(err, fs.ErrNotExist) || p.Dir == filepath.Dir(p.Dir) {
			break
		}
		p.Dir = filepath.Dir(p.Dir)
	}
	p.Free, p.Files = Room(p.Dir)
	f, err := os.CreateTemp(p.Dir, ".probe-")
	if err != nil {
		return p, in(parent, host.Cause(err))
	}
	defer os.Remove(f.Name())
	defer f.Close()
	began := time.Now()
	_, err = f.Write(make([]byte, 4096)) // a full disk or an exceeded quota shows only now
	if err == nil {
		err = f.Sync()
	}
	if err != nil {
		return p, in(parent, host.Cause(err))
	}
	if fi, err := f.Stat(); err == nil {
		at := fi.ModTime() // may lag by one tick of the kernel's clock
		p.Ahead = min(0, at.Sub(began)) + max(0, time.Until(at))
	}
	return p, nil
}

// Room returns how many bytes and files still fit in dir's file system. Either is -1 if unknown.
func Room(dir string) (free gpu.Bytes, files int64) {
	var st unix.Statfs_t
	if unix.Statfs(dir, &st) != nil {
		return -1, -1
	}
	free, files = gpu.Bytes(st.Bavail)*gpu.Bytes(st.Bsize), int64(st.Ffree)
	if st.Files == 0 { // the file system creates inodes on demand
		files = -1
	}
	return free, files
}
