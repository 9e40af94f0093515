package claim

import (
	"cmp"
	"fmt"
	"os"
	"strconv"
	"sync"

	"golang.org/x/sys/unix"

	"gpurun/state/host"
)

// An identity identifies a process to everybody on the host.
type identity struct {
	UID    int    `json:"uid"`
	BootID string `json:"boot_id"`
	PIDNS  string `json:"pid_ns"` // pids are only valid in it
	PID    int    `json:"pid"`
	Start  uint64 `json:"pid_start"` // in clock ticks after boot
}

var self = sync.OnceValue(func() identity {
	st, _ := host.StatOf(os.Getpid())
	return identity{os.Getuid(), host.BootID(), host.PIDNamespace(), os.Getpid(), st.Start}
})

// here reports whether the pid means something to this process.
func (id identity) here() bool { return id.PIDNS == self().PIDNS && id.BootID == self().BootID }

// mine reports whether this process made the claim.
func (c *content) mine() bool { return c.identity == self() }

// exists returns why the process that made a claim can no longer hold it, or nil.
// The claim gets the benefit of the doubt.
func (c *content) exists() error {
	if !c.here() || c.mine() {
		return nil
	}
	if err := unix.Kill(c.PID, 0); err == unix.ESRCH {
		return errGone
	}
	if st, ok := host.StatOf(c.PID); ok && st.Start != c.Start {
		return errGone
	}
	if _, uid, err := host.Status("/proc/" + strconv.Itoa(c.PID)); err == nil && uid >= 0 && uid != c.UID {
		return fmt.Errorf("it names process %d, which belongs to another user", c.PID)
	}
	return nil
}

// login returns a user's name, or "uid N" if it has none.
func login(uid int) string { return cmp.Or(host.Login(uid), "uid "+strconv.Itoa(uid)) }
