package torture

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"
)

// mount mounts a small file system on a new folder in a place, which requires root.
func (p *place) mount(t *testing.T, name, data string) string {
	t.Helper()
	dir := p.mkdir(t, name)
	if err := syscall.Mount("tmpfs", dir, "tmpfs", 0, data); err != nil {
		t.Skipf("cannot mount a file system here: %v", err)
	}
	t.Cleanup(func() { _ = syscall.Unmount(dir, syscall.MNT_DETACH) })
	return dir
}

// When the state folder's disk is full, no more jobs start, running ones end, and gpurun exits with
// 4 and names the folder. Once there is room, the batch continues, and no job that succeeded runs
// twice. What fails first varies: the ledger line, or the attempt's folder, record, marker or log.
func TestFullStateFolderLosesNothing(t *testing.T) {
	t.Parallel()
	for _, limit := range []string{"size=1m", "size=208k", "nr_inodes=40", "nr_inodes=41", "nr_inodes=42"} {
		t.Run(limit, func(t *testing.T) {
			t.Parallel()
			runsFull(t, limit)
		})
	}
}

func runsFull(t *testing.T, limit string) {
	p := newPlace(t)
	tiny := p.mount(t, "tiny", limit)
	jobs := make([]job, 120)
	for i := range jobs {
		jobs[i] = job{Name: fmt.Sprintf("j%03d", i), Kind: "plain", GPUs: 0, Plan: "0", Sleep: 0.01}
	}
	l := newLane(t, p, "lane", nil, jobs, &counts{})
	b, err := os.ReadFile(l.file)
	if err != nil {
		t.Fatal(err)
	}
	// These are large logs that the jobs do not depend on.
	l.write(t, "lane/jobs.yaml", strings.ReplaceAll(string(b), "run: .", "run: head -c 16000 /dev/zero || :; ."))
	run := func() *runner {
		r := l.startWith("--state-dir", tiny)
		if !r.wait(patience) {
			t.Fatalf("gpurun did not end:\n%s", dump(r))
		}
		return r
	}
	r := run()
	l.ended(r, 4)
	said := r.out.String()
	if !strings.Contains(said, "error: no more jobs started: ") || !strings.Contains(said, tiny) || strings.Contains(said, " failed ") || strings.Contains(said, "zerolog") {
		t.Errorf("output:\n%s", said)
	}
	counts := regexp.MustCompile(`(?m)^unfinished: (\d+ of .*) · \w+ s$`).FindStringSubmatch(said)
	status := l.exec([]string{gpurun, "status", "--state-dir", tiny, l.file})
	status.wait(patience)
	if counts == nil || !strings.Contains(strings.Join(strings.Fields(status.out.String()), " "), "unfinished: "+counts[1]) {
		t.Errorf("the run printed %q, but status prints:\n%s", counts, status.out.String())
	}
	before := len(l.notes("start"))
	if before == 0 || before == len(jobs) {
		t.Fatalf("%d jobs started before the disk was full, want some but not all", before)
	}
	until(t, "running jobs to end", patience, func() bool { return len(l.notes("end")) == before })
	noneLeft(t, p.mark)

	if err := syscall.Mount("tmpfs", tiny, "tmpfs", syscall.MS_REMOUNT, "size=64m,nr_inodes=10000"); err != nil {
		t.Fatal(err)
	}
	l.ended(run(), 0)
	folders, _ := filepath.Glob(filepath.Join(tiny, "*"))
	if len(folders) != 1 {
		t.Fatalf("got state folders %v, want one", folders)
	}
	l.state = folders[0]
	l.check()
	ended := map[string]int{}
	for _, n := range l.notes("end") {
		ended[n.job]++
	}
	for _, j := range jobs {
		if ended[j.Name] != 1 {
			t.Errorf("%s ended %d times, want once", j.Name, ended[j.Name])
		}
	}
}
