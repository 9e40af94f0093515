package claim

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"gpurun/state/host"
)

// A folder is one of a user's folders below a root.
type folder struct {
	path string
	uid  int
	dev  uint64 // device of the root
	most int    // maximum number of names to read
	more bool   // the user has more folders than are read
}

// A folderListing records what a folder contained when it was last read. It is valid until the
// folder changes.
type folderListing struct {
	ino   uint64
	ctime int64    // the folder's owner cannot set it
	names []string // for a user's folder: the files that must be read again
	more  bool     // there are more names

	folders  []folder // for a root
	warnings []string
}

// listings caches listings by path, because any user can create many names.
var (
	listings sync.Map
	turns    sync.Mutex // one root at a time, so that the next reader finds it listed
)

// Changes at least timestampResolution apart are sure to have different timestamps.
const timestampResolution = time.Second

// listingOf returns the listing of an open folder, and whether it is still valid; if not, the
// caller fills it in.
func listingOf(d *os.File) (l folderListing, holds bool) {
	var st unix.Stat_t
	if err := unix.Fstat(int(d.Fd()), &st); err != nil || time.Since(time.Unix(st.Ctim.Unix())) < timestampResolution {
		return folderListing{}, false
	}
	if known, ok := listings.Load(d.Name()); ok {
		l = known.(folderListing)
	}
	if now := (folderListing{ino: st.Ino, ctime: st.Ctim.Nano()}); l.ino != now.ino || l.ctime != now.ctime {
		return now, false
	}
	return l, true
}

// folders returns the users' folders below a root. A folder counts only if it belongs to the uid in
// its name, so no user can flood the list. If listing the root takes too long, it looks up by name
// the known folders and the folder of every user with a process. Users without a process cannot hold
// a claim.
func (s *view) folders(ctx context.Context, root string) []folder {
	at := folder{path: root}
	at.dev, _ = device(root)
	d, err := os.Open(root)
	if err != nil {
		if s.unreadable(at, root, err) {
			s.doubt = true
		} else if !errors.Is(err, os.ErrNotExist) {
			s.warn("cannot read %s: %v", root, err)
		}
		return nil
	}
	defer d.Close()
	turns.Lock()
	defer turns.Unlock()
	l, holds := listingOf(d)
	if holds {
		s.warnings = append(s.warnings, l.warnings...)
		return l.folders
	}
	own, strangers, before := map[int][]string{}, 0, len(s.warnings)
	add := func(name string) error {
		uid, ok := folderOf(name)
		if !ok || slices.Contains(own[uid], name) {
			return nil
		}
		err := isFolderOf(d, name, uid)
		if err == nil && len(own[uid]) <= maxOwned {
			own[uid] = append(own[uid], name)
		} else if err != nil && err != unix.ENOENT {
			if strangers++; strangers <= maxNamed {
				s.warn("ignoring %s: %v", filepath.Join(root, name), err)
			}
		}
		return err
	}
	half, cancel := context.WithTimeout(ctx, ReadLimit/2) // the rest of the time is for reading the folders
	defer cancel()
	for err == nil && len(own) < maxFolders && half.Err() == nil {
		var names []string
		names, err = d.Readdirnames(1024)
		for _, name := range names {
			_ = add(name)
		}
	}
	if !errors.Is(err, io.EOF) {
		l.ctime = 0
	}
	if s.doubt = s.unreadable(at, root, err) || s.doubt; err == nil {
		s.warn("%s has too many entries: not all were read", root)
		if known, ok := listings.Load(root); ok {
			for _, f := range known.(folderListing).folders {
				_ = add(filepath.Base(f.path))
			}
		}
		for _, uid := range append(host.Users(), host.CurrentUID()) {
			err := add(prefix + strconv.Itoa(uid))
			if len(own[uid]) == 0 && err != unix.ENOENT && host.UserLock(root, uid) != 0 { // the lock is in a folder whose name is unknown
				s.found = append(s.found, unread(uid))
			}
		}
	}
	if strangers > maxNamed {
		s.warn("%s: further entries ignored", root)
	}
	for uid, names := range own {
		n := min(len(names), maxOwned)
		for i, name := range names[:n] {
			l.folders = append(l.folders, folder{filepath.Join(root, name), uid, at.dev, maxNames / n, i == 0 && len(names) > n})
		}
	}
	l.warnings = slices.Clone(s.warnings[before:])
	listings.Store(root, l)
	return l.folders
}

// folderOf returns the uid in the name of a user's folder, gpurun-UID or gpurun-UID.*.
func folderOf(name string) (int, bool) {
	digits, ok := strings.CutPrefix(name, prefix)
	digits, _, _ = strings.Cut(digits, ".")
	uid, err := strconv.ParseUint(digits, 10, 32)
	return int(uid), ok && err == nil && strconv.FormatUint(uid, 10) == digits
}

// isFolderOf returns why a name in d is not a folder of that user, or nil. It does not query the
// file system that a user may have mounted there, because that may hang.
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
		return fmt.Errorf("it belongs to uid %d, not the uid in its name", x.Uid)
	}
	return nil
}

// device returns the device of a path without querying its file system.
func device(path string) (dev uint64, ok bool) {
	x, err := statx(unix.AT_FDCWD, path)
	return unix.Mkdev(x.Dev_major, x.Dev_minor), err == nil
}

// statx returns the kernel's data for a name without querying its file system.
func statx(dir int, name string) (x unix.Statx_t, err error) {
	const flags = unix.AT_SYMLINK_NOFOLLOW | unix.AT_NO_AUTOMOUNT
	err = unix.Statx(dir, name, flags|unix.AT_STATX_DONT_SYNC, unix.STATX_TYPE|unix.STATX_UID, &x)
	if err != unix.ENOSYS && err != unix.EPERM { // old kernels and sandboxes have no statx
		return x, err
	}
	var st unix.Stat_t
	err = unix.Fstatat(dir, name, &st, flags)
	dev := uint64(st.Dev)
	return unix.Statx_t{Mode: uint16(st.Mode), Uid: st.Uid, Dev_major: unix.Major(dev), Dev_minor: unix.Minor(dev)}, err
}
