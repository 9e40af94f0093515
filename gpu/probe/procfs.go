package probe

import (
	"os"
	"os/user"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"time"

	"gpurun/gpu"
)

// owners finds the user and command of a process. NVML reports host pids. Inside
// another pid namespace, the same number may be a different process, so it is
// trusted only if it has a GPU's device file open.
type owners struct {
	proc  string // "/proc"
	inner bool   // we are in a pid namespace other than the host's

	mu    sync.Mutex
	names map[int]string // by uid
}

// hostPIDNS is the host's pid namespace; the kernel fixes its inode.
const hostPIDNS = "pid:[4026531836]"

func newOwners(proc string) *owners {
	ns, err := os.Readlink(filepath.Join(proc, "self/ns/pid"))
	return &owners{proc: proc, inner: err == nil && ns != hostPIDNS, names: map[int]string{}}
}

// find fills in p's user and command. What it cannot find stays unknown.
func (o *owners) find(p *gpu.Process) {
	p.UID, p.Doubtful = -1, o.inner
	dir := filepath.Join(o.proc, strconv.Itoa(p.PID))
	status, err := os.ReadFile(filepath.Join(dir, "status"))
	if err != nil || o.inner && !usesGPU(dir) {
		return
	}
	for line := range strings.Lines(string(status)) {
		name, value, _ := strings.Cut(line, ":")
		fields := strings.Fields(value)
		switch {
		case name == "Name":
			p.Command = strings.TrimSpace(value)
		case name == "Uid" && len(fields) > 0:
			if uid, err := strconv.Atoi(fields[0]); err == nil {
				p.UID = uid
			}
		}
	}
	if p.UID >= 0 {
		p.User = o.name(p.UID)
	}
}

// usesGPU reports whether a process visibly has a GPU's device file open.
func usesGPU(dir string) bool {
	fds, err := os.ReadDir(filepath.Join(dir, "fd"))
	if err != nil {
		return false
	}
	for _, fd := range fds {
		target, err := os.Readlink(filepath.Join(dir, "fd", fd.Name()))
		if err == nil && strings.HasPrefix(target, "/dev/nvidia") {
			return true
		}
	}
	return false
}

// name returns the login name of uid, or "". An unresponsive directory service
// delays a reading briefly, once per user.
func (o *owners) name(uid int) string {
	o.mu.Lock()
	name, known := o.names[uid]
	if !known {
		o.names[uid] = ""
	}
	o.mu.Unlock()
	if known {
		return name
	}
	found := make(chan string, 1)
	go func() {
		n := ""
		if u, err := user.LookupId(strconv.Itoa(uid)); err == nil {
			n = u.Username
		}
		o.mu.Lock()
		o.names[uid] = n
		o.mu.Unlock()
		found <- n
	}()
	select {
	case name = <-found:
	case <-time.After(200 * time.Millisecond):
	}
	return name
}
