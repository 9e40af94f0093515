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

// identity identifies this process to everybody on the host.
type identity struct {
	boot, ns string
	pid      int
	start    uint64
}

var self = sync.OnceValue(func() identity {
	st, _ := host.StatOf(os.Getpid())
	return identity{boot: host.BootID(), ns: host.PIDNamespace(), pid: os.Getpid(), start: st.Start}
})

// mine reports whether this process made the claim.
func (c *content) mine() bool {
	me := self()
	return c.UID == os.Getuid() && c.PID == me.pid && c.Start == me.start && c.PIDNS == me.ns && c.BootID == me.boot
}

// exists returns why the process that made a claim can no longer hold it, or nil.
// The claim gets the benefit of the doubt.
func (c *content) exists() error {
	if me := self(); c.PIDNS != me.ns || c.BootID != me.boot || c.mine() {
		return nil // its pid means nothing here, or it is this process
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
