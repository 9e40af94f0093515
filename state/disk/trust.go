package disk

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/user"
	"path/filepath"
	"strconv"

	"golang.org/x/sys/unix"

	"gpurun/state/host"
)

// A user who can write to a state folder can make this user's gpurun append to other files or
// accept attempts that never existed, and can remove its ledger. So the folder must belong to
// this user, and no one else may have write permission. Root may also use the folder of the job
// file's owner, whose commands it runs anyway. A group with the owner's name or number counts as
// the owner (umask 002 with private groups).

// prepare checks a batch folder, and creates it if there is none.
func prepare(dir, jobFile string) error {
	if err := above(dir, jobFile); err != nil {
		return err
	}
	if err := makeFolder(dir); err != nil {
		return err
	}
	return within(dir, jobFile)
}

// above checks .gpurun, the parent of dir, because its owner could replace the folders in it. A
// folder given with --state-dir is the caller's choice.
func above(dir, jobFile string) error {
	parent := filepath.Dir(dir)
	if filepath.Base(parent) != hidden {
		return nil
	}
	return in(dir, trusted(parent, jobFile, unix.S_ISVTX))
}

// CheckOwnership returns an error if another user can control the content of a file. If there is no
// such file, it returns nil. It checks the file's owner, who can write to it, and who can replace it
// in its folder.
func CheckOwnership(file string) error {
	var st unix.Stat_t
	switch err := unix.Stat(file, &st); {
	case errors.Is(err, fs.ErrNotExist):
		return nil
	case err != nil:
		return &fs.PathError{Op: "stat", Path: file, Err: err}
	case int(st.Uid) != os.Geteuid() && st.Uid != 0:
		return fmt.Errorf("%s belongs to %s", file, userName(st.Uid))
	case st.Mode&0o002 != 0 || st.Mode&0o020 != 0 && !privateGroup(&st):
		return fmt.Errorf("other users can write to %s (mode %04o): run chmod go-w %s", file, st.Mode&0o7777, file)
	}
	return trusted(filepath.Dir(file), file, unix.S_ISVTX)
}

// within checks a batch folder and its contents.
func within(dir, jobFile string) error {
	err := trusted(dir, jobFile, 0)
	for _, sub := range []string{logsName, triesName} {
		if err != nil {
			break
		}
		if fi, e := os.Lstat(filepath.Join(dir, sub)); e == nil && fi.Mode()&fs.ModeSymlink != 0 {
			err = host.UnexpectedFile(sub, "a symbolic link")
		} else {
			err = trusted(filepath.Join(dir, sub), jobFile, 0)
		}
	}
	if fi, e := os.Lstat(filepath.Join(dir, runLogName)); err == nil && e == nil && !fi.Mode().IsRegular() {
		err = host.UnexpectedFile(runLogName, "not a regular file")
	}
	return in(dir, err)
}

// trusted returns why a folder is not safe to use, or nil if it is safe or missing. Others may have
// write access if the folder's mode contains any of the bits in harmless.
func trusted(dir, jobFile string, harmless uint32) error {
	var link, st unix.Stat_t
	if err := unix.Lstat(dir, &link); errors.Is(err, unix.ENOENT) {
		return nil
	} else if err != nil {
		return err
	}
	if err := unix.Stat(dir, &st); err != nil {
		return fmt.Errorf("%s: %w", dir, err)
	}
	if st.Mode&unix.S_IFMT != unix.S_IFDIR {
		return host.UnexpectedFile(dir, "not a folder")
	}
	open := st.Mode&0o002 != 0 || st.Mode&0o020 != 0 && !privateGroup(&st)
	open = open && st.Mode&harmless == 0
	ours := may(link.Uid, jobFile) && may(st.Uid, jobFile)
	if ours && !open {
		return nil
	}
	// Some file systems (CIFS, drvfs, squashed NFS) report the same owner or mode for every file.
	if uid, mode, ok := probe(dir); ok && link.Mode&unix.S_IFMT == unix.S_IFDIR {
		ours = ours || uid == st.Uid
		open = open && mode&0o022 == 0
	}
	switch {
	case !ours:
		return fmt.Errorf("%s belongs to %s: use another folder (--state-dir)", dir, userName(st.Uid, link.Uid))
	case open:
		return fmt.Errorf("other users can write to %s (mode %04o): check its contents, then run chmod go-w %s, or use another folder (--state-dir)", dir, st.Mode&0o7777, dir)
	}
	return nil
}

// may reports whether this user may use a folder owned by uid.
func may(uid uint32, jobFile string) bool {
	var job unix.Stat_t
	return int(uid) == os.Geteuid() || uid == 0 || os.Geteuid() == 0 && unix.Stat(jobFile, &job) == nil && job.Uid == uid
}

// privateGroup reports whether a folder's group is the private group of its owner.
func privateGroup(st *unix.Stat_t) bool {
	if st.Gid == st.Uid {
		return true
	}
	u, err1 := user.LookupId(strconv.Itoa(int(st.Uid)))
	g, err2 := user.LookupGroupId(strconv.Itoa(int(st.Gid)))
	return err1 == nil && err2 == nil && u.Username == g.Name
}

// probe creates a file that only its owner can write, and returns the owner and mode that the file
// gets.
func probe(dir string) (uid, mode uint32, ok bool) {
	f, err := os.CreateTemp(dir, ".probe-")
	if err != nil {
		return 0, 0, false
	}
	defer os.Remove(f.Name())
	defer f.Close()
	var st unix.Stat_t
	if unix.Fstat(int(f.Fd()), &st) != nil {
		return 0, 0, false
	}
	return st.Uid, st.Mode, true
}

// userName returns the name of the first of these users that is not the current one.
func userName(uids ...uint32) string {
	for _, uid := range uids {
		if int(uid) == os.Geteuid() {
			continue
		}
		return cmp.Or(host.Login(int(uid)), fmt.Sprintf("uid %d", uid))
	}
	return "another user"
}
