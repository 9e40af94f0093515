package probe

import (
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"gpurun/gpu"
	"gpurun/state/host"
)

// owners finds the user and command of a process. NVML reports host PIDs, and inside another PID
// namespace the same number may be a different process. There, a PID is trusted only if the process
// has a GPU's device file open.
type owners struct {
	proc  string // "/proc"
	inner bool   // this process is in a PID namespace other than the host's
}

// hostPIDNS is the host's PID namespace, whose inode is fixed in the kernel.
const hostPIDNS = "pid:[4026531836]"

func newOwners(proc string) *owners {
	ns, err := os.Readlink(filepath.Join(proc, "self/ns/pid"))
	return &owners{proc: proc, inner: err == nil && ns != hostPIDNS}
}

// find sets p's user, command and start, which stay unknown if not found.
func (o *owners) find(p *gpu.Process) {
	p.UID, p.Doubtful = -1, o.inner
	dir := filepath.Join(o.proc, strconv.Itoa(p.PID))
	command, uid, _, err := host.Status(dir)
	if err != nil || o.inner && !usesGPU(dir) {
		return
	}
	p.Command, p.UID = command, host.HostUID(uid)
	if stat, err := os.ReadFile(filepath.Join(dir, "stat")); err == nil {
		s, _ := host.ParseStat(stat)
		p.Start = s.Started()
	}
	if p.UID >= 0 {
		p.User = host.Login(uid)
	}
}

// usesGPU reports whether a process visibly has a GPU's device file open.
func usesGPU(dir string) bool {
	fds, _ := os.ReadDir(filepath.Join(dir, "fd"))
	return slices.ContainsFunc(fds, func(fd os.DirEntry) bool {
		target, _ := os.Readlink(filepath.Join(dir, "fd", fd.Name()))
		return strings.HasPrefix(target, "/dev/nvidia")
	})
}
