// Package host tells what the kernel knows about this machine's processes.
package host

import (
	"bufio"
	"bytes"
	"os"
	"strconv"

	"golang.org/x/sys/unix"
)

// LockHolder returns the process that holds a flock on a file, or 0 when the kernel
// does not tell: nobody does, or the process lives in a pid namespace that is not
// visible from here.
func LockHolder(st *unix.Stat_t) int {
	f, err := os.Open("/proc/locks")
	if err != nil {
		return 0
	}
	defer f.Close()
	for in := bufio.NewScanner(f); in.Scan(); {
		if pid := holderOf(in.Bytes(), uint64(st.Dev), st.Ino); pid != 0 {
			return pid
		}
	}
	return 0
}

// holderOf reads one line of /proc/locks, proc_locks(5); 0 unless it is a flock on
// that file which is held, not waited for.
func holderOf(line []byte, dev, ino uint64) int {
	field := bytes.Fields(line)
	if len(field) < 6 || string(field[1]) != "FLOCK" {
		return 0
	}
	id := bytes.Split(field[5], []byte(":"))
	if len(id) != 3 {
		return 0
	}
	major, err1 := strconv.ParseUint(string(id[0]), 16, 32)
	minor, err2 := strconv.ParseUint(string(id[1]), 16, 32)
	n, err3 := strconv.ParseUint(string(id[2]), 10, 64)
	pid, err4 := strconv.Atoi(string(field[4]))
	if err1 != nil || err2 != nil || err3 != nil || err4 != nil || n != ino {
		return 0
	}
	if uint32(major) != unix.Major(dev) || uint32(minor) != unix.Minor(dev) {
		return 0
	}
	return max(pid, 0)
}

// Owner returns the user that a process of this host runs as; false when it is gone
// or hidden.
func Owner(pid int) (uid int, ok bool) {
	var st unix.Stat_t
	if unix.Stat("/proc/"+strconv.Itoa(pid), &st) != nil {
		return 0, false
	}
	return int(st.Uid), true
}

// Alive reports whether a process exists, whoever it belongs to.
func Alive(pid int) bool {
	err := unix.Kill(pid, 0)
	return err == nil || err == unix.EPERM
}
