package host

import (
	"bytes"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// A Stat is the content of a process's /proc/PID/stat, proc(5).
type Stat struct {
	PID     int
	State   byte // 'R', 'S', 'T', 'Z', …
	Parent  int
	Session int // pid of the session leader, dead or alive
	Threads int
	Start   uint64 // in clock ticks after boot; with the PID, it identifies a process
	Flags   uint64 // PF_*
	CPU     uint64 // clock ticks, including those of children it has waited for
	CodeEnd uint64 // the address where its program's code ends; below 2 during an exec, or if hidden
	EnvEnd  uint64 // 0 during an exec, or if hidden
}

// StatOf returns the stat of a process. ok is false if /proc does not show the process.
func StatOf(pid int) (s Stat, ok bool) {
	var fd int
	path := "/proc/" + strconv.Itoa(pid) + "/stat"
	if Patiently(path, func() (err error) {
		fd, err = unix.Open(path, unix.O_RDONLY|unix.O_CLOEXEC, 0)
		return err
	}) != nil {
		return s, false
	}
	defer unix.Close(fd)
	var buf [1024]byte
	n, err := unix.Read(fd, buf[:])
	if err != nil {
		return s, false
	}
	return ParseStat(buf[:n])
}

// ParseStat parses a line of /proc/PID/stat, which must reach at least to the start time.
func ParseStat(line []byte) (s Stat, ok bool) {
	open, shut := bytes.IndexByte(line, '('), bytes.LastIndexByte(line, ')')
	if open < 1 || shut < open {
		return s, false
	}
	f := bytes.Fields(line[shut+1:]) // fields from number 3 of proc(5) on
	if len(f) < 20 {
		return s, false
	}
	s.PID, ok = int(number(line[:open-1])), true
	s.State, s.Parent, s.Session, s.Flags = f[0][0], int(number(f[1])), int(number(f[3])), number(f[6])
	s.Threads, s.Start = int(number(f[17])), number(f[19])
	for _, ticks := range f[11:15] {
		s.CPU += number(ticks)
	}
	if len(f) > 48 {
		s.CodeEnd, s.EnvEnd = number(f[24]), number(f[48])
	}
	return s, s.PID > 0
}

func number(b []byte) uint64 {
	n, _ := strconv.ParseUint(string(b), 10, 64)
	return n
}

// Started returns when the process started, in CLOCK_BOOTTIME.
func (s *Stat) Started() time.Duration { return time.Duration(s.Start) * time.Second / clockTicks }

// clockTicks is the number of clock ticks per second in /proc, which is the same on all Linux
// systems.
const clockTicks = 100

// Over reports whether a process has ended. State Z alone is not enough: it may mean that the first
// thread has ended while others keep running.
func (s *Stat) Over() bool { return (s.State == 'Z' || s.State == 'X') && s.Threads <= 1 }

// Status returns the command, the real uid and the caught signals of the process with the given folder
// in /proc. The uid is -1 if unknown.
func Status(dir string) (command string, uid int, caught uint64, err error) {
	b, err := os.ReadFile(filepath.Join(dir, "status"))
	if err != nil {
		return "", -1, 0, err
	}
	uid = -1
	for line := range strings.Lines(string(b)) {
		name, value, _ := strings.Cut(line, ":")
		switch fields := strings.Fields(value); {
		case name == "Name":
			command = strings.TrimSpace(value)
		case name == "SigCgt":
			caught, _ = strconv.ParseUint(strings.TrimSpace(value), 16, 64)
		case name == "Uid" && len(fields) > 0:
			if n, err := strconv.Atoi(fields[0]); err == nil {
				uid = n
			}
		}
	}
	return command, uid, caught, nil
}

// Alive reports whether a process exists, regardless of its owner.
func Alive(pid int) bool {
	err := unix.Kill(pid, 0)
	return err == nil || err == unix.EPERM
}

// Owner returns the user who runs a process. ok is false if the process has ended or is hidden.
func Owner(pid int) (uid int, ok bool) {
	var st unix.Stat_t
	if unix.Stat("/proc/"+strconv.Itoa(pid), &st) != nil {
		return 0, false
	}
	return int(st.Uid), true
}

// InheritedFDs returns the descriptors that this process inherited. Those that it opened itself are
// close-on-exec.
func InheritedFDs() (fds []int) {
	entries, _ := os.ReadDir("/proc/self/fd")
	for _, e := range entries {
		fd, err := strconv.Atoi(e.Name())
		if err != nil {
			continue
		}
		if flags, err := unix.FcntlInt(uintptr(fd), unix.F_GETFD, 0); err == nil && flags&unix.FD_CLOEXEC == 0 {
			fds = append(fds, fd)
		}
	}
	return fds
}

// CloseInherited closes all inherited descriptors other than stdio, for example one that holds a
// flock(1) lock. Otherwise, a process that hangs or that a user's command leaves running might keep
// them open after gpurun has ended.
func CloseInherited() {
	for _, fd := range InheritedFDs() {
		if fd > 2 {
			_ = unix.Close(fd)
		}
	}
}
