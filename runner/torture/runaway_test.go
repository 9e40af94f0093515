package torture

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

// runaway keeps forking, leaving its session and exiting, and ignores SIGTERM. None of its PIDs
// lives until the end of a scan of /proc. It stops after 200 s, in case
// gpurun cannot end it.
const runaway = `
#include <signal.h>
#include <time.h>
#include <unistd.h>
int main(void) {
	time_t end = time(0) + 200;
	signal(SIGTERM, SIG_IGN);
	while (time(0) < end) {
		if (fork() > 0)
			_exit(0);
		setsid();
		for (volatile int i = 0; i < 300000; i++)
			;
	}
}
`

// The PID of the job's process changes every millisecond. The job must not end while that process
// exists, and the timeout must end both, even next to another job's daemon that has dropped every
// connection to its job.
func TestRunawayProcessIsEnded(t *testing.T) {
	t.Parallel()
	cc, err := exec.LookPath("cc")
	if err != nil {
		t.Skip("no C compiler")
	}
	p := newPlace(t)
	l := &lane{place: p, t: t, name: "lane", count: &counts{}}
	l.state = filepath.Join(p.mkdir(t, "lane"), ".gpurun", "jobs.yaml")
	source := p.write(t, "runaway.c", runaway)
	program := strings.TrimSuffix(source, ".c")
	if out, err := exec.Command(cc, "-O1", "-o", program, source).CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	l.file = p.write(t, "lane/jobs.yaml", fmt.Sprintf(`
settings: {grace: 1s}
defaults: {gpus: 0, allow: [background]}
jobs:
  - {name: runaway, timeout: 2s, leftovers: wait, run: %q}
  - name: daemon
    run: |
      (env -i %s setsid sh -c 'cd /; exec sleep 1000' </dev/null >/dev/null 2>&1 &)
      sleep 1
`, program, p.mark))
	r := l.start()
	if !r.wait(patience) {
		t.Fatalf("gpurun did not end:\n%s", dump(r))
	}
	l.ended(r, 1)
	if out := r.out.String(); !strings.Contains(out, "timeout     runaway") || strings.Contains(out, "succeeded   runaway") {
		t.Errorf("output:\n%s", out)
	}
	until(t, "the keeper's end", patience, func() bool { return len(keepers(l.mark, l.state)) == 0 })
	noneLeft(t, p.mark)
	for _, pid := range named(program) {
		t.Errorf("leftover process %d of the job", pid)
		_ = syscall.Kill(pid, syscall.SIGKILL)
	}
}

// named returns the processes that run a program.
func named(program string) (pids []int) {
	exes, _ := filepath.Glob("/proc/[0-9]*/exe")
	for _, exe := range exes {
		if to, err := os.Readlink(exe); err == nil && to == program {
			var pid int
			if _, err := fmt.Sscanf(exe, "/proc/%d/exe", &pid); err == nil {
				pids = append(pids, pid)
			}
		}
	}
	return pids
}
