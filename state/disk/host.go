package disk

import (
	"os"
	"strings"
	"sync"

	"gpurun/state"
)

// Host returns a run fact that identifies this machine and PID namespace, the only
// place where its PIDs are valid.
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

// pidNamespace returns the namespace's name, "pid:[4026531836]", or "" if unknown.
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
