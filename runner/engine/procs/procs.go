// Package procs reads the kernel's process table: parents, sessions, environments. A
// process is always identified by pid and start time, since pids are reused. Anything that /proc
// does not show (hidepid, another user's environment) is treated as absent.
package procs

import (
	"bytes"
	"cmp"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"gpurun/state/host"
)

// ID identifies a process, even after its pid has been reused.
type ID struct {
	PID   int
	Start uint64 // in clock ticks after boot
}

// Began returns when the process started, in CLOCK_BOOTTIME, rounded down to 10 ms.
func (id ID) Began() time.Duration { return time.Duration(id.Start) * tick }

// Compare orders processes by age, the oldest first.
func (id ID) Compare(other ID) int {
	return cmp.Or(cmp.Compare(id.Start, other.Start), cmp.Compare(id.PID, other.PID))
}

// A Proc is one living process.
type Proc struct {
	ID
	Parent  int // pid
	Session int // pid of the session leader, dead or alive
	Zombie  bool
	CPU     time.Duration // including children it has waited for
}

// A Table is one reading of all processes, by pid. It is not a snapshot of one instant: a process
// that is forked during the reading may be missing.
type Table map[int]Proc

// Read reads all of /proc.
func Read() Table {
	t := Table{}
	each(func(p Proc) { t[p.PID] = p })
	return t
}

// each passes every process to f. It reads only a few pids at a time and looks at them immediately,
// so that in a chain of processes that each start the next one and exit, a later one is still
// found.
func each(f func(Proc)) {
	var d int
	if host.Patiently("/proc", func() (err error) {
		d, err = unix.Open("/proc", unix.O_RDONLY|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
		return err
	}) != nil {
		return
	}
	defer unix.Close(d)
	some := make([]byte, 128)
	for {
		n, err := unix.ReadDirent(d, some)
		if err == unix.EINTR {
			continue
		}
		if err != nil || n <= 0 {
			return
		}
		_, _, names := unix.ParseDirent(some[:n], -1, nil)
		for _, name := range names {
			if pid, err := strconv.Atoi(name); err == nil {
				some = some[:32] // one process at a time: if it forks a child before it exits, the child is listed next
				if p, ok := One(pid); ok {
					f(p)
				}
			}
		}
	}
}

// One reads one process. It returns false if there is none with that pid.
func One(pid int) (Proc, bool) {
	s, ok := host.StatOf(pid)
	if !ok {
		return Proc{}, false
	}
	return Proc{ID: ID{PID: pid, Start: s.Start}, Parent: s.Parent, Session: s.Session, Zombie: s.Over(), CPU: time.Duration(s.CPU) * tick}, true
}

// Alive reports whether this very process is still running. A zombie is not.
func Alive(id ID) bool {
	p, ok := One(id.PID)
	return ok && p.ID == id && !p.Zombie
}

// Stopped reports whether a process has been stopped, by a signal or a debugger.
func Stopped(pid int) bool {
	s, ok := host.StatOf(pid)
	return ok && (s.State == 'T' || s.State == 't')
}

// Catches reports whether a process has a handler for a signal. Without one, the signal may end
// the process.
func Catches(pid int, sig unix.Signal) bool {
	_, _, caught, _ := host.Status("/proc/" + strconv.Itoa(pid))
	return sig > 0 && caught>>(sig-1)&1 == 1
}

// Signal sends a signal to this very process, never to another process that now has its pid.
// It is not an error if the process is gone.
func Signal(id ID, sig unix.Signal) error {
	fd, err := unix.PidfdOpen(id.PID, 0)
	if err == nil {
		defer unix.Close(fd)
	}
	if !Alive(id) {
		return nil
	}
	if err != nil { // the kernel is older than 5.3, or the process is gone
		err = unix.Kill(id.PID, sig)
	} else {
		err = unix.PidfdSendSignal(fd, sig, nil, 0)
	}
	if err == unix.ESRCH {
		return nil
	}
	return err
}

// Children maps each pid to the pids of its children.
type Children map[int][]int

// Children groups the processes by parent.
func (t Table) Children() Children {
	children := make(Children, len(t))
	for _, p := range t {
		children[p.Parent] = append(children[p.Parent], p.PID)
	}
	return children
}

// Add adds all descendants of the set's members to the set.
func (children Children) Add(set map[int]bool) {
	todo := make([]int, 0, len(set))
	for pid := range set {
		todo = append(todo, pid)
	}
	for len(todo) > 0 {
		pid := todo[len(todo)-1]
		todo = todo[:len(todo)-1]
		for _, c := range children[pid] {
			if !set[c] {
				set[c] = true
				todo = append(todo, c)
			}
		}
	}
}

// Living adds all descendants of the set's members to the set, removes this process, and lists the
// living members.
func (t Table) Living(children Children, set map[int]bool) (ids []ID) {
	children.Add(set)
	delete(set, os.Getpid())
	for pid := range set {
		if p, ok := t[pid]; ok && !p.Zombie {
			ids = append(ids, p.ID)
		}
	}
	return ids
}

// UniIDName is the environment variable that names the attempt a process belongs to.
const UniIDName = "GPURUN_UNI_ID"

// UniID returns the uni_id that a process was started with, or "".
func UniID(pid int) string {
	none := false
	path := "/proc/" + strconv.Itoa(pid) + "/environ"
	for range 50 {
		var b []byte
		if host.Patiently(path, func() (err error) {
			b, err = os.ReadFile(path)
			return err
		}) != nil {
			return ""
		}
		if len(b) > 0 || none {
			return uniIDIn(b)
		}
		// Even if no exec is in progress now, one may have been a moment ago: read once more.
		if none = !executing(pid); !none {
			<-time.After(200 * time.Microsecond)
		}
	}
	return ""
}

// Named returns the processes that were started with a uni_id.
func Named(uniID string) []ID {
	var ids []ID
	each(func(p Proc) {
		if UniID(p.PID) == uniID {
			ids = append(ids, p.ID)
		}
	})
	return ids
}

// executing reports whether a process is in the middle of an exec. At that moment its environment
// cannot be read.
func executing(pid int) bool {
	const kernelThread = 0x00200000 // PF_KTHREAD
	s, ok := host.StatOf(pid)
	return ok && s.State != 'Z' && s.State != 'X' && s.Flags&kernelThread == 0 && s.EnvEnd == 0
}

// Cmdline returns the beginning of a process's arguments, each terminated by a NUL byte.
func Cmdline(pid int) string {
	f, err := os.Open("/proc/" + strconv.Itoa(pid) + "/cmdline")
	if err != nil {
		return ""
	}
	defer f.Close()
	var buf [512]byte
	n, _ := f.Read(buf[:])
	return string(buf[:max(n, 0)])
}

// uniIDIn returns the uni_id in an environment whose entries are NUL-terminated, or "".
func uniIDIn(env []byte) string {
	for kv := range bytes.SplitSeq(env, []byte{0}) {
		if id, ok := bytes.CutPrefix(kv, []byte(UniIDName+"=")); ok {
			return string(id)
		}
	}
	return ""
}

// Writes reports whether descriptor 1 or 2 of a process is the file with this device and
// inode.
func Writes(pid int, dev, ino uint64) bool {
	for _, fd := range []string{"1", "2"} {
		var st unix.Stat_t
		if unix.Stat("/proc/"+strconv.Itoa(pid)+"/fd/"+fd, &st) == nil && st.Dev == dev && st.Ino == ino {
			return true
		}
	}
	return false
}

// ChildList opens a list of this process's children that can be reread with a single system call.
// The list includes all orphans, which the kernel assigns to the first thread. It includes other
// children only if that thread forked them.
func ChildList() (*os.File, error) {
	pid := strconv.Itoa(os.Getpid())
	return os.Open("/proc/" + pid + "/task/" + pid + "/children")
}

// Pids reads a list opened by ChildList.
func Pids(list *os.File) ([]int, error) {
	var buf [4096]byte
	var pids []int
	var rest string
	for off := int64(0); ; {
		n, err := unix.Pread(int(list.Fd()), buf[:], off)
		if err != nil {
			return nil, err
		}
		if n == 0 {
			return pids, nil
		}
		off += int64(n)
		fields := strings.SplitAfter(rest+string(buf[:n]), " ")
		rest = fields[len(fields)-1]
		for _, f := range fields[:len(fields)-1] {
			pid, err := strconv.Atoi(strings.TrimSpace(f))
			if err == nil {
				pids = append(pids, pid)
			}
		}
	}
}

// In returns the pid of another process of this user that has its working directory or an open file
// in a folder, or whose environment names a path in the folder. It returns 0 if there is none.
func In(dir string) (pid int) {
	entries, _ := os.ReadDir("/proc")
	for _, e := range entries {
		pid, err := strconv.Atoi(e.Name())
		if err != nil || pid == os.Getpid() {
			continue
		}
		at := "/proc/" + e.Name()
		links := []string{at + "/cwd"}
		open, _ := os.ReadDir(at + "/fd")
		for _, fd := range open {
			links = append(links, at+"/fd/"+fd.Name())
		}
		env, _ := os.ReadFile(at + "/environ")
		if bytes.Contains(env, []byte(dir+"/")) || slices.ContainsFunc(links, func(link string) bool {
			to, err := os.Readlink(link)
			return err == nil && strings.HasPrefix(to+"/", dir+"/")
		}) {
			return pid
		}
	}
	return 0
}
