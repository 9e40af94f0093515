// Package host identifies this machine, boot, process and user. It also reads what the kernel
// reports about other processes, file locks and the peer of a socket.
package host

import (
	"os"
	"strings"
	"sync"
	"time"

	"golang.org/x/sys/unix"
)

// Boottime returns CLOCK_BOOTTIME, which keeps running while the machine sleeps and is never
// adjusted.
func Boottime() time.Duration {
	var ts unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_BOOTTIME, &ts); err != nil {
		panic("no CLOCK_BOOTTIME: " + err.Error())
	}
	return time.Duration(ts.Nano())
}

// BootID identifies this boot of the machine. PIDs and boot times are meaningless in any other
// boot.
var BootID = sync.OnceValue(func() string { return line("/proc/sys/kernel/random/boot_id") })

// MachineID identifies the machine, or is empty if the machine has no ID.
var MachineID = sync.OnceValue(func() string { return line("/etc/machine-id") })

// PIDNamespace returns the name of this PID namespace, "pid:[4026531836]", or "" if
// unknown.
var PIDNamespace = sync.OnceValue(func() string {
	s, _ := os.Readlink("/proc/self/ns/pid")
	return s
})

// Name returns the machine's name.
func Name() string {
	name, err := os.Hostname()
	if err != nil {
		return "unknown"
	}
	return name
}

func line(path string) string {
	b, _ := os.ReadFile(path)
	return strings.TrimSpace(string(b))
}
