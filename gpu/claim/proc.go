package claim

import (
	"fmt"
	"os"
	"strconv"
	"sync"

	"gpurun/gpu"
	"gpurun/state/host"
)

// An identity identifies a process uniquely on the host.
type identity struct {
	UID    int    `json:"uid"`
	BootID string `json:"boot_id"`
	PIDNS  string `json:"pid_ns"` // namespace in which the PID is valid
	PID    int    `json:"pid"`
	Start  uint64 `json:"pid_start"` // in clock ticks after boot
}

var self = sync.OnceValue(func() identity {
	st, _ := host.StatOf(os.Getpid())
	return identity{host.CurrentUID(), host.BootID(), host.PIDNamespace(), os.Getpid(), st.Start}
})

// here reports whether the PID is valid for this process.
func (id identity) here() bool { return id.PIDNS == self().PIDNS && id.BootID == self().BootID }

// mine reports whether id is this process.
func (id identity) mine() bool { return id == self() }

func (id identity) maker() identity { return id }

// exists returns why the process can no longer hold its files, or nil if it can or if this is
// unknown.
func (id identity) exists() error {
	if !id.here() || id.mine() {
		return nil
	}
	if !host.Alive(id.PID) {
		return errGone
	}
	if st, ok := host.StatOf(id.PID); ok && id.Start != 0 && st.Start != id.Start { // 0: unknown
		return errGone
	}
	if _, uid, _, err := host.Status("/proc/" + strconv.Itoa(id.PID)); err == nil && uid >= 0 && !owns(uint32(uid), id.UID) {
		return fmt.Errorf("it names process %d, which belongs to another user", id.PID)
	}
	return nil
}

// login returns a user's name, or "uid N" if the user has none.
func login(uid int) string { return gpu.UserName(host.UserName(uid), uid) }
