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

// ownFolder opens this user's folder below root, creating it if necessary. It also
// creates a private root, but never one that all users share. It restores the mode
// of a folder that others could write to.
func ownFolder(root string, private bool) (*os.File, error) {
	f := mine(root)
	if private {
		_ = os.MkdirAll(root, 0o700)
	}
	made := unix.Mkdir(f.path, 0o755)
	d, err := openFolder(f)
	if errors.Is(err, unix.ENOENT) {
		err = made
	}
	if err != nil {
		return nil, fmt.Errorf("%s cannot be used: %s", f.path, plain(err))
	}
	fi, err := d.Stat()
	if err == nil && fi.Mode().Perm() != 0o755 {
		err = d.Chmod(0o755) // mkdir's mode is subject to the umask
	}
	if err != nil {
		d.Close()
		return nil, fmt.Errorf("%s cannot be used: %w", f.path, err)
	}
	return d, nil
}

// mine is this user's folder below root.
func mine(root string) folder {
	return folder{path: filepath.Join(root, prefix+strconv.Itoa(host.Me())), uid: host.Me()}
}

// sweep removes this user's claims that nobody holds, and quarantines of an earlier boot.
// It locks each claim first, so that whoever is just creating it notices and creates it
// again (lockNew).
func sweep(root string) {
	d, err := openFolder(mine(root))
	if err != nil {
		return
	}
	defer d.Close()
	ctx, cancel := context.WithTimeout(context.Background(), readLimit)
	defer cancel()
	names, _, _, _ := listNames(ctx, d)
	for _, name := range names {
		if ctx.Err() != nil {
			return
		}
		if strings.HasSuffix(name, usageSuffix) {
			continue
		}
		if strings.HasSuffix(name, sickSuffix) {
			if _, err := readSick(d, name, host.Me()); errors.Is(err, errGone) {
				_ = unix.Unlinkat(int(d.Fd()), name, 0)
			}
			continue
		}
		fd, err := openPlain(d, name, host.Me())
		if err != nil {
			continue
		}
		if unix.Flock(fd, unix.LOCK_EX|unix.LOCK_NB) == nil {
			_ = unix.Unlinkat(int(d.Fd()), name, 0)
		}
		unix.Close(fd)
	}
}
