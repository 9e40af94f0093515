package claim

import (
	"bytes"
	"fmt"
	"os"
	"os/user"
	"strconv"
	"strings"
	"sync"
	"time"

	"golang.org/x/sys/unix"
)

// identity identifies this process to everybody on the host.
type identity struct {
	boot, ns string
	pid      int
	start    uint64
}

var self = sync.OnceValue(func() identity {
	b, _ := os.ReadFile("/proc/sys/kernel/random/boot_id")
	ns, _ := os.Readlink("/proc/self/ns/pid")
	start, _ := startTime(os.Getpid())
	return identity{boot: strings.TrimSpace(string(b)), ns: ns, pid: os.Getpid(), start: start}
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
	if start, ok := startTime(c.PID); ok && start != c.Start {
		return errGone
	}
	if uid, ok := processUser(c.PID); ok && uid != c.UID {
		return fmt.Errorf("it names process %d, which belongs to another user", c.PID)
	}
	return nil
}

// startTime returns when a process started, if /proc shows it.
func startTime(pid int) (uint64, bool) {
	b, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat")
	shut := bytes.LastIndexByte(b, ')')
	if err != nil || shut < 0 {
		return 0, false
	}
	f := bytes.Fields(b[shut+1:]) // from field 3 of proc(5) on
	if len(f) < 20 {
		return 0, false
	}
	n, err := strconv.ParseUint(string(f[19]), 10, 64)
	return n, err == nil
}

// processUser returns the real uid of a process, if /proc shows it.
func processUser(pid int) (int, bool) {
	b, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/status")
	if err != nil {
		return 0, false
	}
	for line := range strings.Lines(string(b)) {
		if rest, ok := strings.CutPrefix(line, "Uid:"); ok {
			f := strings.Fields(rest)
			if len(f) == 0 {
				return 0, false
			}
			uid, err := strconv.Atoi(f[0])
			return uid, err == nil
		}
	}
	return 0, false
}

// names caches login names by uid. An unresponsive directory service costs a moment,
// once per user.
type names struct{ known sync.Map }

func (n *names) of(uid int) string {
	if name, ok := n.known.Load(uid); ok {
		return name.(string)
	}
	unknown := "uid " + strconv.Itoa(uid)
	n.known.Store(uid, unknown)
	found := make(chan string, 1)
	go func() {
		name := unknown
		if u, err := user.LookupId(strconv.Itoa(uid)); err == nil && u.Username != "" {
			name = u.Username
		}
		n.known.Store(uid, name)
		found <- name
	}()
	select {
	case name := <-found:
		return name
	case <-time.After(200 * time.Millisecond):
		return unknown
	}
}
