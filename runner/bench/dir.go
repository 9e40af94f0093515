package main

import (
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"
)

// newDir makes the folder of one run of the bench, in parent. What an earlier one
// left there is not looked at.
func newDir(parent string) (string, error) {
	parent, err := filepath.Abs(parent)
	if err != nil {
		return "", err
	}
	if err := os.MkdirAll(parent, 0o777); err != nil {
		return "", err
	}
	dir, err := os.MkdirTemp(parent, "gpurun-bench-")
	if err == nil {
		spread(dir)
	}
	return dir, err
}

// topDir is FS_TOPDIR_FL of linux/fs.h, the T of chattr.
const topDir = 0x20000

// spread asks ext4 to put each folder that is made in dir into a group of blocks of
// its own, as far as there are some. In the group where thousands of files have been
// deleted a file takes several times as long to make, for minutes: whoever is
// measured there pays for what another has deleted. Other file systems refuse it,
// and have no need of it.
func spread(dir string) {
	fd, err := unix.Open(dir, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return
	}
	defer unix.Close(fd)
	if flags, err := unix.IoctlGetInt(fd, unix.FS_IOC_GETFLAGS); err == nil {
		_ = unix.IoctlSetPointerInt(fd, unix.FS_IOC_SETFLAGS, flags|topDir)
	}
}
