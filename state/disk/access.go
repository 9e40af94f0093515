package disk

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"

	"golang.org/x/sys/unix"

	"gpurun/state/host"
)

// Users who can read all job files of a batch can read its state. Only users who can write to all
// of them can open its locks, because anyone who can open a lock can hold it. The mode of the
// batch's folder protects everything in it.

// An access describes what other users can do with a batch.
type access struct {
	mode     os.FileMode // the permissions that all of its job files grant
	uid, gid int         // of the job files; -1 if they differ
}

// access returns the access to the batch, for state that is kept in dir.
func (s *State) access(dir string) (a access, err error) {
	for i, f := range s.files {
		real, err := RealPath(f.job)
		var st unix.Stat_t
		if err == nil {
			err = unix.Stat(real, &st)
		}
		if err != nil {
			return a, err
		}
		of := access{os.FileMode(st.Mode & 0o777), int(st.Uid), int(st.Gid)}
		for d := filepath.Dir(real); !host.Inside(d, dir); d = filepath.Dir(d) { // other users need search permission on each folder above the job file
			if unix.Stat(d, &st) != nil || st.Mode&0o001 == 0 {
				of.mode &^= 0o007
			}
			if st.Mode&0o010 == 0 || int(st.Gid) != of.gid {
				of.mode &= 0o707 | of.mode<<3&0o070
			}
		}
		if i == 0 {
			a = of
			continue
		}
		if of.gid != a.gid { // members of one file's group get only the permissions for others on the other file
			of.mode, a.gid = of.mode&(0o707|a.mode<<3)&(0o707|of.mode<<3), -1
		}
		if a.mode &= of.mode; of.uid != a.uid {
			a.uid = -1
		}
	}
	return a, nil
}

// share sets the mode of a file or folder, if it exists. The owner gets the permissions in owner. The
// group and others each get those in bits if the job files grant them all permissions in need.
func (a access) share(path string, owner, bits, need os.FileMode) error {
	flags, root := unix.O_PATH|unix.O_CLOEXEC, os.Geteuid() == 0
	if root {
		flags |= unix.O_NOFOLLOW
	}
	fd, err := unix.Open(path, flags, 0)
	if err != nil {
		return nil
	}
	defer unix.Close(fd)
	var st unix.Stat_t
	if unix.Fstat(fd, &st) != nil || root && (st.Mode&unix.S_IFMT == unix.S_IFLNK || hardLinked(st.Mode, uint64(st.Nlink))) {
		return nil
	}
	this := fmt.Sprintf("/proc/self/fd/%d", fd)
	mode, uid := owner<<6, -1
	for _, shift := range []int{3, 0} {
		if a.mode>>shift&need == need {
			mode |= bits << shift
		}
	}
	if root && st.Uid == 0 && a.uid > 0 {
		uid = a.uid // after sudo gpurun, the state belongs to the owner of the job files
	}
	if mode&0o070>>3 != mode&0o007 || uid >= 0 {
		if unix.Chown(this, uid, a.gid) != nil || a.gid < 0 {
			mode &= 0o707 | mode<<3
		} else if st.Mode&unix.S_IFMT == unix.S_IFDIR {
			mode |= os.ModeSetgid // new files in the folder belong to its group
		}
	}
	if mode == os.FileMode(st.Mode&0o777) {
		return nil
	}
	if err := os.Chmod(this, mode); err != nil && os.FileMode(st.Mode)&^mode&(bits<<3|bits) != 0 {
		return &fs.PathError{Op: "chmod", Path: path, Err: host.Cause(err)}
	}
	return nil // if Chmod failed, the mode still grants no more than it should
}

// hardLinked reports whether a file may be a hard link to a file elsewhere, which the user of a folder in
// which root runs gpurun may have planted.
func hardLinked(mode uint32, links uint64) bool {
	return mode&unix.S_IFMT == unix.S_IFREG && links > 1
}

// give makes the owner of the job files the owner of the state that root has created, so that they
// can run the files without sudo next time.
func (a access) give(dir string) {
	if os.Geteuid() != 0 || a.uid <= 0 {
		return
	}
	give := func(dir string) {
		root, err := os.OpenRoot(dir) // or a folder that becomes a link could lead the walk elsewhere
		if err != nil {
			return
		}
		defer root.Close()
		_ = fs.WalkDir(root.FS(), ".", func(name string, _ fs.DirEntry, err error) error {
			info, serr := root.Lstat(name)
			if err != nil || serr != nil {
				return nil
			}
			if st := info.Sys().(*syscall.Stat_t); st.Uid == 0 && !hardLinked(st.Mode, uint64(st.Nlink)) {
				_ = root.Lchown(name, a.uid, -1)
			}
			return nil
		})
	}
	give(dir)
	above := filepath.Dir(dir)
	var st unix.Stat_t
	if filepath.Base(above) != hidden || unix.Lstat(filepath.Dir(above), &st) != nil || int(st.Uid) != a.uid {
		return
	}
	if unix.Lstat(above, &st) == nil && st.Uid == 0 {
		_ = unix.Lchown(above, a.uid, -1)
	}
	give(filepath.Join(above, configsName))
}

// ConfigCopy returns the path of the lock for a generated config file, and the most permissive mode
// that the file may have. Job files that keep their state in one place share the lock.
func (s *State) ConfigCopy(file int, path string) (lock string, mode os.FileMode) {
	f, sum := s.files[file], sha256.Sum256([]byte(path))
	return filepath.Join(filepath.Dir(f.dir), configsName, hex.EncodeToString(sum[:16])), 0o600 | f.access.mode&0o066
}

// Share sets the modes of the batch's files on disk before a run, because the modes of the job
// files may have changed since the last one.
func (s *State) Share() {
	for _, f := range s.files {
		a, err := s.access(f.dir)
		if err == nil {
			f.access = a
			err = errors.Join(a.share(f.dir, 7, 5, 4), a.share(filepath.Join(f.dir, lockName), 6, 6, 6), a.share(filepath.Join(f.dir, editsName), 6, 6, 6))
			a.give(f.dir)
		}
		if err != nil && !isNotExist(err) { // a list from standard input has no file, so its state stays private
			s.warnings = append(s.warnings, fmt.Sprintf("%s: cannot apply the permissions of the job files: %v", f.dir, err))
		}
	}
}
