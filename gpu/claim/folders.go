package claim

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"gpurun/state/host"
)

// A folder is one user's folder below a root.
type folder struct {
	path string
	uid  int
	dev  uint64 // of the root
}

// folders returns the users' folders below a root. Only a folder that belongs to
// the uid in its name counts, so nobody can flood the list. If the root has too many
// names to read, it looks up by name the folder of every user with a process: nobody
// else can hold a claim.
func (s *sight) folders(ctx context.Context, root string) (list []folder) {
	at := folder{path: root}
	at.dev, _ = device(root)
	d, err := os.Open(root)
	if err != nil {
		if s.unreadable(at, root, err) {
			s.doubt = true
		} else if !errors.Is(err, os.ErrNotExist) {
			s.warn("%s cannot be read: %v", root, err)
		}
		return nil
	}
	defer d.Close()
	seen, strangers := map[int]bool{}, 0
	add := func(name string, uid int) {
		err := isFolderOf(d, name, uid)
		switch {
		case seen[uid] || err == unix.ENOENT:
		case err == nil:
			seen[uid] = true
			list = append(list, folder{filepath.Join(root, name), uid, at.dev})
		default:
			if strangers++; strangers <= maxNamed {
				s.warn("ignoring %s: %v", filepath.Join(root, name), err)
			}
		}
	}
	for n := 0; n < maxEntries && len(list) < maxFolders && ctx.Err() == nil; {
		names, err := d.Readdirnames(1024)
		n += len(names)
		for _, name := range names {
			if uid, ok := folderOf(name); ok {
				add(name, uid)
			}
		}
		if err != nil {
			s.doubt = s.unreadable(at, root, err) || s.doubt
			if strangers > maxNamed {
				s.warn("%s: further entries ignored", root)
			}
			return list
		}
	}
	s.warn("%s has too many entries to read them all", root)
	for _, uid := range append(host.Users(), host.Me()) {
		add(prefix+strconv.Itoa(uid), uid)
	}
	return list
}

// folderOf returns the uid in the name of a user's folder.
func folderOf(name string) (int, bool) {
	digits, ok := strings.CutPrefix(name, prefix)
	uid, err := strconv.ParseUint(digits, 10, 32)
	return int(uid), ok && err == nil && strconv.FormatUint(uid, 10) == digits
}

// isFolderOf returns why what has a name in d is not a folder of that user, or nil.
// What a user has mounted there may never answer, so it is not asked.
func isFolderOf(d *os.File, name string, uid int) error {
	x, err := statx(int(d.Fd()), name)
	switch {
	case err != nil:
		return err
	case x.Mode&unix.S_IFMT == unix.S_IFLNK:
		return errors.New("it is a symbolic link")
	case x.Mode&unix.S_IFMT != unix.S_IFDIR:
		return errors.New("it is not a folder")
	case !owns(x.Uid, uid):
		return fmt.Errorf("it belongs to uid %d, not to the one in its name", x.Uid)
	}
	return nil
}

// device returns the device of a path, which it does not ask.
func device(path string) (dev uint64, ok bool) {
	x, err := statx(unix.AT_FDCWD, path)
	return unix.Mkdev(x.Dev_major, x.Dev_minor), err == nil
}

// statx returns what the kernel knows about a name without asking its file system.
func statx(dir int, name string) (x unix.Statx_t, err error) {
	const flags = unix.AT_SYMLINK_NOFOLLOW | unix.AT_NO_AUTOMOUNT
	err = unix.Statx(dir, name, flags|unix.AT_STATX_DONT_SYNC, unix.STATX_TYPE|unix.STATX_UID, &x)
	if err != unix.ENOSYS && err != unix.EPERM { // an old kernel or sandbox has no statx
		return x, err
	}
	var st unix.Stat_t
	err = unix.Fstatat(dir, name, &st, flags)
	dev := uint64(st.Dev)
	return unix.Statx_t{Mode: uint16(st.Mode), Uid: st.Uid, Dev_major: unix.Major(dev), Dev_minor: unix.Minor(dev)}, err
}
