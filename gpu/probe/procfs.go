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

// owners finds out whose a process is. A pid from NVML is the host's. In a pid
// namespace of our own the same number may be quite another process, which is
// believed only where it has a GPU's device file open.
type owners struct {
	proc  string // "/proc"
	inner bool   // we are in a pid namespace of our own

	mu    sync.Mutex
	names map[int]string // by uid
}

// hostPIDNS is the inode of the host's pid namespace, fixed in the kernel.
const hostPIDNS = "pid:[4026531836]"

func newOwners(proc string) *owners {
	ns, err := os.Readlink(filepath.Join(proc, "self/ns/pid"))
	return &owners{proc: proc, inner: err == nil && ns != hostPIDNS, names: map[int]string{}}
}

// find fills in user and command of p; what cannot be found out stays unknown.
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

// usesGPU says whether a process is seen to have a GPU's device file open.
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

// name is the login name of uid, or "". A directory service that does not
// answer holds a reading up for a moment, once for each user.
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
