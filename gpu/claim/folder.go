package claim

import (
	"context"
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"gpurun/state/host"
)

// ownFolder opens this user's folder below root, creating it if necessary. If another user has
// taken the folder's name, ownFolder uses another name with the same prefix. It also creates a
// private root, but never one that all users share. It removes other users' write permission for
// the folder.
func ownFolder(root string, private bool) (*os.File, error) {
	f := folder{path: filepath.Join(root, prefix+strconv.Itoa(host.CurrentUID())), uid: host.CurrentUID()}
	if private {
		_ = os.MkdirAll(root, 0o700)
	}
	made := unix.Mkdir(f.path, 0o755)
	d, err := openFolder(f)
	if err != nil && (!errors.As(err, new(unix.Errno)) || plain(err) != err.Error() || err == unix.EACCES) { // not because descriptors have run out
		d, err = otherFolder(root, err)
	} else if errors.Is(err, unix.ENOENT) {
		err = made
	}
	if err != nil {
		return nil, fmt.Errorf("cannot use %s: %s", f.path, plain(err))
	}
	fi, err := d.Stat()
	if err == nil && fi.Mode().Perm() != 0o755 {
		err = d.Chmod(0o755) // mkdir applies the umask
	}
	if err != nil {
		d.Close()
		return nil, fmt.Errorf("cannot use %s: %w", f.path, err)
	}
	return d, nil
}

// inFirst calls do with this user's folder below each root, the shared one first, until do
// succeeds. It returns the errors of earlier roots and, if all fail, the last error.
func inFirst(roots []string, do func(dir *os.File) error) (refused []error, err error) {
	err = errors.New("no folder available for claims")
	for i, root := range roots {
		var dir *os.File
		if dir, err = ownFolder(root, i > 0); err == nil {
			err = do(dir)
			dir.Close()
		}
		if err == nil {
			return refused, nil
		}
		refused = append(refused, err)
	}
	return refused, err
}

// otherFolder opens a folder of this user whose name has a suffix, or creates one with a random
// suffix, so that no other user can have taken its name. If it fails, it returns the error taken.
func otherFolder(root string, taken error) (*os.File, error) {
	names, err := os.ReadDir(root) // all entries, because a run that missed the folder would create another one
	if err != nil {
		return nil, taken
	}
	for _, e := range names {
		if uid, ok := folderOf(e.Name()); ok && uid == host.CurrentUID() {
			if d, err := openFolder(folder{path: filepath.Join(root, e.Name()), uid: uid}); err == nil {
				return d, nil
			}
		}
	}
	path, err := os.MkdirTemp(root, prefix+strconv.Itoa(host.CurrentUID())+".*")
	if err != nil {
		return nil, taken
	}
	return openFolder(folder{path: path, uid: host.CurrentUID()})
}

// mine returns this user's folders below some roots, in the order in which they are used.
func mine(roots ...string) (list []folder) {
	ctx, cancel := context.WithTimeout(context.Background(), ReadLimit)
	defer cancel()
	for _, root := range roots {
		own := slices.DeleteFunc(slices.Clone((&view{}).folders(ctx, root)), func(f folder) bool { return f.uid != host.CurrentUID() })
		slices.SortFunc(own, func(a, b folder) int { return strings.Compare(a.path, b.path) })
		list = append(list, own...)
	}
	return list
}

// sweep removes this user's claims without a holder, and quarantines from an earlier boot. It locks
// each claim first, so that a process that is just creating the claim notices the removal and creates
// the claim again (lockNew).
func sweep(f folder) {
	d, err := openFolder(f)
	if err != nil {
		return
	}
	defer d.Close()
	ctx, cancel := context.WithTimeout(context.Background(), ReadLimit)
	defer cancel()
	names, _, _, _ := listNames(ctx, d, math.MaxInt)
	for _, name := range names {
		if ctx.Err() != nil {
			return
		}
		if strings.HasSuffix(name, usageSuffix) {
			continue
		}
		if strings.HasSuffix(name, quarantineSuffix) {
			if _, err := readQuarantine(d, name, host.CurrentUID()); errors.Is(err, errGone) {
				_ = unix.Unlinkat(int(d.Fd()), name, 0)
			}
			continue
		}
		fd, err := openPlain(d, name, host.CurrentUID())
		if err != nil {
			continue
		}
		file := os.NewFile(uintptr(fd), name)
		if unix.Flock(fd, unix.LOCK_EX|unix.LOCK_NB) == nil && linked(file, filepath.Join(f.path, name)) { // the name may be another file's by now
			_ = unix.Unlinkat(int(d.Fd()), name, 0)
		}
		file.Close()
	}
}
