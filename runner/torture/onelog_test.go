package torture

import (
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

// A job fails after its runner was killed. When the file is run again, each of the job's two
// attempts has its own log.
func TestEachAttemptHasItsOwnLog(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	l := &lane{place: p, t: t, name: "lane", count: &counts{}}
	dir := p.mkdir(t, "lane")
	l.state = filepath.Join(dir, ".gpurun", "jobs.yaml")
	l.file = p.write(t, "lane/jobs.yaml", `
jobs:
  - name: a
    gpus: 0
    log: a.log
    run: |
      echo "output of $GPURUN_UNI_ID"
      while test -d $PWD && ! test -e go; do sleep 0.02; done
      exit 3
`)
	log := filepath.Join(dir, "a.log")
	r := l.start()
	until(t, "the job's output", patience, func() bool { b, _ := os.ReadFile(log); return len(b) > 0 })
	r.signal(syscall.SIGKILL)
	<-r.done
	p.write(t, "lane/go", "")
	until(t, "the job's end", patience, func() bool { return len(keepers(l.mark, l.state)) == 0 })
	l.run(1)
	now, _ := os.ReadFile(log)
	old, _ := os.ReadFile(log + ".1")
	if n, m := strings.Count(string(now), "output of"), strings.Count(string(old), "output of"); n != 1 || m != 1 {
		t.Errorf("got %d outputs in the log and %d in the old log, want 1 in each:\n%s\n%s", n, m, now, old)
	}
}
