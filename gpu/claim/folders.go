package claim

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"

	"golang.org/x/sys/unix"

	"gpurun/state/host"
)

// listFolders returns the users' folders below a root. Only a folder that belongs to
// the uid in its name counts, so nobody can flood the list. If the root has too many
// names to read, it looks up by name the folder of every user with a process: nobody
// else can hold a claim.
func listFolders(ctx context.Context, root string, s *sight) []folder {
	d, err := os.Open(root)
	if err != nil {
		if !errors.Is(err, os.ErrNotExist) && !s.rootUnreadable(root, err) {
			s.warn("%s cannot be read: %v", root, err)
		}
		return nil
	}
	defer d.Close()
	l := folderList{root: root, seen: map[int]bool{}, sight: s}
	var st unix.Stat_t
	if unix.Fstat(int(d.Fd()), &st) == nil {
		l.dev = uint64(st.Dev)
	}
	for n := 0; n < maxEntries && len(l.folders) < maxFolders && ctx.Err() == nil; {
		names, err := d.Readdirnames(1024)
		n += len(names)
		for _, name := range names {
			if uid, ok := folderOf(name); ok {
				l.add(d, name, uid)
			}
		}
		if err != nil {
			if s.rootUnreadable(root, err); l.strangers > maxNamed {
				s.warn("%s: further entries ignored", root)
			}
			return l.folders
		}
	}
	s.warn("%s has too many entries to read them all", root)
	for _, uid := range append(host.Users(), os.Getuid()) {
		l.add(d, prefix+strconv.Itoa(uid), uid)
	}
	return l.folders
}

// rootUnreadable records an error that hides everybody's claims.
func (s *sight) rootUnreadable(root string, err error) bool {
	var st unix.Stat_t
	_ = unix.Stat(root, &st)
	in := sight{}
	if !in.unreadable(folder{path: root, dev: uint64(st.Dev)}, root, err) {
		return false
	}
	s.warnings = append(s.warnings, in.warnings...)
	s.doubt = true
	return true
}

type folderList struct {
	root      string
	dev       uint64
	seen      map[int]bool
	folders   []folder
	strangers int // named like a user's folder, but not one
	sight     *sight
}

// add adds a name if it is a user's own folder.
func (l *folderList) add(d *os.File, name string, uid int) {
	mode, owner, err := ownerOf(d, name)
	var why string
	switch {
	case l.seen[uid] || err == unix.ENOENT:
		return
	case err != nil:
		why = err.Error()
	case mode&unix.S_IFMT == unix.S_IFLNK:
		why = "it is a symbolic link"
	case mode&unix.S_IFMT != unix.S_IFDIR:
		why = "it is not a folder"
	case owner != uid:
		why = fmt.Sprintf("it belongs to uid %d, not to the one in its name", owner)
	default:
		l.seen[uid] = true
		l.folders = append(l.folders, folder{filepath.Join(l.root, name), uid, l.dev})
		return
	}
	if l.strangers++; l.strangers <= maxNamed {
		l.sight.warn("ignoring %s: %s", filepath.Join(l.root, name), why)
	}
}

// ownerOf returns the mode and owner of what has a name in a folder. What a user has
// mounted there may never answer, so it is not asked.
func ownerOf(d *os.File, name string) (mode uint32, uid int, err error) {
	const flags = unix.AT_SYMLINK_NOFOLLOW | unix.AT_NO_AUTOMOUNT
	var x unix.Statx_t
	err = unix.Statx(int(d.Fd()), name, flags|unix.AT_STATX_DONT_SYNC, unix.STATX_TYPE|unix.STATX_UID, &x)
	if err != unix.ENOSYS && err != unix.EPERM { // an old kernel or sandbox has no statx
		return uint32(x.Mode), int(x.Uid), err
	}
	var st unix.Stat_t
	err = unix.Fstatat(int(d.Fd()), name, &st, flags)
	return st.Mode, int(st.Uid), err
}
