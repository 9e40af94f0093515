package disk

import (
	"os"
	"strings"
	"sync"

	"gpurun/state"
)

// Host is what a ledger says of the machine and of the pid namespace: pids mean
// something only there.
func Host() state.Fact {
	return state.Fact{
		Kind: state.KindRun, Version: state.Version,
		MachineID: line("/etc/machine-id"), Host: hostname(), BootID: bootID(), PIDNS: pidNamespace(),
	}
}

func hostname() string {
	h, err := os.Hostname()
	if err != nil {
		return "unknown"
	}
	return h
}

var bootID = sync.OnceValue(func() string { return line("/proc/sys/kernel/random/boot_id") })

// pidNamespace names the namespace, "pid:[4026531836]"; "" where /proc does not tell.
func pidNamespace() string {
	s, err := os.Readlink("/proc/self/ns/pid")
	if err != nil {
		return ""
	}
	return s
}

func line(path string) string {
	b, err := os.ReadFile(path)
	if err != nil {
		return ""
	}
	return strings.TrimSpace(string(b))
}
