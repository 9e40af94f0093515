package procs

import (
	"bytes"
	"os"
	"strconv"

	"golang.org/x/sys/unix"
)

// Catches reports whether a process has a handler for a signal. Without one, the signal may end
// the process.
func Catches(pid int, sig unix.Signal) bool {
	status, _ := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/status")
	for line := range bytes.Lines(status) {
		if mask, ok := bytes.CutPrefix(line, []byte("SigCgt:")); ok {
			bits, err := strconv.ParseUint(string(bytes.TrimSpace(mask)), 16, 64)
			return err == nil && sig > 0 && bits>>(sig-1)&1 == 1
		}
	}
	return false
}
