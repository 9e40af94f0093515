package cli

import (
	"fmt"
	"syscall"

	"golang.org/x/sys/unix"

	"gpurun/runner/batches"
)

// jobLimits are the inherited limits (ulimit) that break jobs if they are below least. If least is
// 0, any limit breaks jobs.
var jobLimits = []struct {
	resource  int
	least     uint64
	what, why string
	option    string // option of ulimit
}{
	{unix.RLIMIT_NOFILE, 256, "open files", "data loaders fail, and gpurun delays the start of jobs", "-n"},
	{unix.RLIMIT_NPROC, 1024, "processes and threads for your user", "libraries that start a thread per core fail", "-u"},
	{unix.RLIMIT_AS, 0, "KiB of address space", "CUDA fails, because it reserves far more than it uses", "-v"},
	{unix.RLIMIT_CPU, 0, "seconds of CPU time", "the kernel kills jobs that use more", "-t"},
	{unix.RLIMIT_FSIZE, 0, "blocks in a file", "logs and checkpoints are truncated", "-f"},
}

// leastOpen is the number of open files that gpurun needs, plus some for jobs.
const leastOpen = 64

// enoughFiles raises the limit on open files to what gpurun needs, or returns why it cannot.
func enoughFiles() error {
	var lim syscall.Rlimit
	if syscall.Getrlimit(syscall.RLIMIT_NOFILE, &lim) != nil || lim.Cur >= leastOpen {
		return nil
	}
	had := lim.Cur
	lim.Cur, lim.Max = leastOpen, max(lim.Max, leastOpen)
	if err := syscall.Setrlimit(syscall.RLIMIT_NOFILE, &lim); err != nil {
		return &batches.Failure{Code: batches.ExitState, Text: fmt.Sprintf("the limit on open files is too low: %d (ulimit -n)", had), Hint: "gpurun needs 64: run ulimit -n 1024 first, or raise the limit in /etc/security/limits.conf", Err: err}
	}
	return nil
}

// limits checks the limits that jobs would inherit.
func (d *diagnosis) limits() string {
	for _, l := range jobLimits {
		var lim unix.Rlimit
		if unix.Getrlimit(l.resource, &lim) != nil || lim.Cur == unix.RLIM_INFINITY || l.least > 0 && lim.Cur >= l.least {
			continue
		}
		shown := lim.Cur
		if l.resource == unix.RLIMIT_AS || l.resource == unix.RLIMIT_FSIZE {
			shown /= 1024
		}
		want := "unlimited"
		if l.least > 0 {
			want = fmt.Sprint(4 * l.least)
		}
		fix := fmt.Sprintf("run ulimit %s %s before gpurun", l.option, want)
		if lim.Max < lim.Cur*4 || l.least == 0 && lim.Max != unix.RLIM_INFINITY {
			fix += "; if refused, raise the limit in /etc/security/limits.conf, or in a systemd unit with a key such as LimitNOFILE="
		}
		d.addProblem(fmt.Sprintf("at most %d %s (ulimit %s): %s", shown, l.what, l.option, l.why), fix)
	}
	return "limits on open files, processes, address space, CPU time and file size are high enough"
}
