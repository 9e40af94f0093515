package disk

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"gpurun/state"
)

// mount mounts a tmpfs on a new folder. Tests run as root need one, because root ignores file
// modes.
func mount(t *testing.T, flags uintptr, data string) string {
	t.Helper()
	dir := t.TempDir()
	if err := unix.Mount("tmpfs", dir, "tmpfs", flags, data); err != nil {
		t.Skipf("cannot mount a tmpfs here: %v", err)
	}
	t.Cleanup(func() { _ = unix.Unmount(dir, unix.MNT_DETACH) })
	return dir
}

func TestReadOnlyFileSystemIsNamedInTheError(t *testing.T) {
	dir := mount(t, unix.MS_RDONLY, "")
	job := filepath.Join(dir, "jobs.yaml")
	_, err := Open([]string{job}, Options{})
	if err == nil || !strings.Contains(err.Error(), "read-only") || !strings.Contains(err.Error(), "--state-dir") || !strings.Contains(err.Error(), dir) {
		t.Errorf("got %v, want the cause, the folder and --state-dir", err)
	}
	if _, _, err := Load([]string{job}, Options{}); err != nil {
		t.Errorf("Load needs a writable folder: %v", err)
	}
}

// On a full disk, facts that do not fit are refused. Once there is room again, the ledger must have
// every accepted fact, and later ones.
func TestFullDiskLosesNoAcceptedFact(t *testing.T) {
	for _, together := range []int{1, 7} {
		t.Run(fmt.Sprint(together), func(t *testing.T) { diskFillsUp(t, together) })
	}
}

func diskFillsUp(t *testing.T, together int) {
	job := filepath.Join(mount(t, 0, "size=256k"), "jobs.yaml")
	s, err := Open([]string{job}, Options{})
	if err != nil {
		t.Fatal(err)
	}
	ballast := filepath.Join(filepath.Dir(job), "ballast")
	if err := os.WriteFile(ballast, make([]byte, 100<<10), 0o644); err != nil {
		t.Fatal(err)
	}
	accepted := 0
	f := state.Fact{Kind: state.KindEnd, Time: time.Unix(0, 0).UTC(), State: state.Succeeded, Reason: strings.Repeat("x", 3000)}
	for err == nil && accepted < 1000 {
		var some []state.Fact
		for i := range together {
			f.Key = string(rune('A' + accepted + i))
			some = append(some, f)
		}
		var n int
		n, err = s.Append(0, some...)
		if accepted += n; (n < together) != (err != nil) {
			t.Fatalf("%d of %d were accepted, %v", n, together, err)
		}
	}
	if !errors.Is(err, unix.ENOSPC) || !strings.Contains(err.Error(), "full") {
		t.Fatalf("got %v after %d facts, want that the disk is full", err, accepted)
	}
	if err := os.Remove(ballast); err != nil {
		t.Fatal(err)
	}
	f.Key = "after"
	if _, err := s.Append(0, f); err != nil {
		t.Fatal(err)
	}
	s.Close()
	h, warnings, err := Load([]string{job}, Options{})
	if err != nil || count(h) != accepted+1 || h.Of(0, "after") == nil || len(warnings) > 1 {
		t.Errorf("got %d records of %d, warnings %q, %v", count(h), accepted+1, warnings, err)
	}
}

// A job starts only if the disk has room for its end. Ends are written even if starts are refused.
func TestNoStartWithoutRoomForItsEnd(t *testing.T) {
	dir := mount(t, 0, "size=256k")
	s, err := Open([]string{filepath.Join(dir, "jobs.yaml")}, Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	start := state.Fact{Kind: state.KindStart, Time: time.Unix(0, 0).UTC(), Key: "a", UniID: "1"}
	if _, err := s.Append(0, start); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "ballast"), make([]byte, 1<<20), 0o644); !errors.Is(err, unix.ENOSPC) {
		t.Fatal(err)
	}
	end := state.Fact{Kind: state.KindEnd, Time: start.Time, Key: "a", UniID: "1", State: state.Succeeded, Reason: strings.Repeat("x", 500)}
	refused := false
	for i := range endsRoom / 600 * 2 {
		if _, err := s.Append(0, end); err != nil {
			t.Fatalf("end %d: %v", i, err)
		}
		if start.Key = "b"; !refused {
			_, err := s.Append(0, start)
			refused = errors.Is(err, unix.ENOSPC)
		}
		if refused && i > 20 {
			return
		}
	}
	t.Error("no start was refused")
}

// An abandoned attempt must stay lost, although the last run in the ledger is now one on this host.
func TestAbandonedAttemptStaysAbandoned(t *testing.T) {
	job := jobFile(t)
	s := open(t, job)
	there := Host()
	there.MachineID, there.Host, there.Time = "other", "gpu01", noon
	write(t, s, []state.Fact{there, {Kind: state.KindStart, Time: noon, Job: "c", Key: "kc", UniID: "u"}})
	s.Close()
	s, err := Open([]string{job}, Options{Abandon: "gpu01"})
	if err != nil {
		t.Fatal(err)
	}
	s.Close()
	s, err = Open([]string{job}, Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	if r := s.History().Of(0, "kc"); r == nil || r.State != state.Lost || len(s.History().Open) != 0 {
		t.Errorf("got %+v", r)
	}
}

// An attempt that began but has no line in the ledger may still be running, so its folder must not
// be removed.
func TestAttemptWithBrokenStartIsKept(t *testing.T) {
	job := jobFile(t)
	s := open(t, job)
	ids := map[string]string{}
	for _, what := range []string{"began", "over", "never began"} {
		id, _, err := s.NewAttempt(0, true)
		if err != nil {
			t.Fatal(err)
		}
		dir := s.AttemptDir(0, id)
		ids[what] = dir
		if what != "never began" {
			os.WriteFile(filepath.Join(dir, "mark"), nil, 0o644)
		}
		if what == "over" {
			write(t, s, []state.Fact{{Kind: state.KindEnd, Key: "k", UniID: id, State: state.Failed}})
		}
	}
	s.Close()
	trace := func(dir, _ string) (state.Trace, error) {
		_, err := os.Stat(filepath.Join(dir, "mark"))
		return state.Trace{Began: err == nil}, nil
	}
	s, err := Open([]string{job}, Options{Trace: trace})
	if err != nil {
		t.Fatal(err)
	}
	if w := s.Warnings(); len(w) != 1 || !strings.Contains(w[0], ids["began"]) {
		t.Errorf("got warnings %q, want one about the attempt that began", w)
	}
	s.Close()
	for what, dir := range ids {
		if _, err := os.Stat(dir); (err == nil) != (what == "began") {
			t.Errorf("attempt %s: %v", what, err)
		}
	}
}

// On file systems without locks, a holder's name left in the lock file would lock out other hosts
// forever.
func TestLockFileIsClearedWithoutFlock(t *testing.T) {
	f, err := os.Create(filepath.Join(t.TempDir(), lockName))
	if err != nil {
		t.Fatal(err)
	}
	if err := writeHolder(f); err != nil {
		t.Fatal(err)
	}
	if h := readHolder(f); h.PID != os.Getpid() {
		t.Fatalf("got %+v", h)
	}
	s := &State{files: []*fileState{{lock: f}}}
	if err := s.unlock(); err != nil {
		t.Fatal(err)
	}
	again, err := os.Open(f.Name())
	if err != nil {
		t.Fatal(err)
	}
	defer again.Close()
	if h := readHolder(again); h != (holder{}) {
		t.Errorf("after unlock, the holder is %+v, want none", h)
	}
}

// A failed sync is reported once, by the next Append. Folders of attempts stay.
func TestFailedSyncIsReportedOnce(t *testing.T) {
	job := jobFile(t)
	s := openIdle(t, job)
	id, _, err := s.NewAttempt(0, true)
	if err != nil {
		t.Fatal(err)
	}
	whole := s.files[0].ledger.f
	closed, err := os.Open(os.DevNull)
	if err != nil {
		t.Fatal(err)
	}
	closed.Close()
	s.files[0].ledger.f = closed
	s.RemoveAttempt(0, id)
	s.sync.flush()
	s.files[0].ledger.f = whole
	end := state.Fact{Kind: state.KindEnd, Key: "k", State: state.Succeeded}
	if _, err := s.Append(0, end); err == nil {
		t.Error("the failed sync was not reported")
	}
	if _, err := s.Append(0, end); err != nil {
		t.Errorf("the failed sync is reported twice: %v", err)
	}
	if _, err := os.Stat(s.AttemptDir(0, id)); err != nil {
		t.Errorf("the folder was removed before its end was on disk: %v", err)
	}
	s.Close()
}

// No Append follows a run's last sync, so Sync must report a failure.
func TestLastSyncFailureIsReported(t *testing.T) {
	s := openIdle(t, jobFile(t))
	whole := s.files[0].ledger.f
	s.files[0].ledger.f = os.NewFile(^uintptr(0), "none")
	s.sync.then(func() {})
	if err := s.Sync(); err == nil {
		t.Error("the failed sync was not reported")
	}
	s.files[0].ledger.f = whole
	if err := s.Close(); err != nil {
		t.Errorf("the failed sync is reported twice: %v", err)
	}
}

func TestLogsStayInTheirFolder(t *testing.T) {
	for job, want := range map[string]string{
		"a": "/s/logs/a.log", "a/b": "/s/logs/a/b.log", "../../x": "/s/logs/_../_../x.log", "..": "/s/logs/_...log",
		"a.log": "/s/logs/a.log.log", "a.log/b": "/s/logs/a.log-" + shortHash("a.log") + "/b.log", "a.log.1/b": "/s/logs/a.log.1-" + shortHash("a.log.1") + "/b.log",
	} {
		if got := logPath("/s", job); got != want {
			t.Errorf("%s: got %s, want %s", job, got, want)
		}
	}
}

// A line longer than any valid one is skipped with a warning.
func TestHugeLineNeedsLittleMemory(t *testing.T) {
	job := jobFile(t)
	s := open(t, job)
	write(t, s, []state.Fact{{Kind: state.KindEnd, Key: "before", State: state.Succeeded}})
	s.Close()
	f, err := os.OpenFile(filepath.Join(Folder(job, ""), ledgerName), os.O_APPEND|os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	const size = 64 << 20
	for range 64 {
		f.Write(bytes.Repeat([]byte{'x'}, size/64))
	}
	f.WriteString("\n")
	f.Close()
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	s = open(t, job)
	write(t, s, []state.Fact{{Kind: state.KindEnd, Key: "after", State: state.Succeeded}})
	s.Close()
	h, warnings, err := Load([]string{job}, Options{})
	if err != nil || h.Of(0, "before") == nil || h.Of(0, "after") == nil || len(warnings) != 1 {
		t.Errorf("got %d records, %q, %v", count(h), warnings, err)
	}
	if runtime.ReadMemStats(&after); after.TotalAlloc-before.TotalAlloc > size/2 {
		t.Errorf("allocated %d bytes in all for reading a line of %d bytes twice", after.TotalAlloc-before.TotalAlloc, size)
	}
}

// limitsFiles runs the test in a child process and returns true, or returns false in the child. A
// test that limits the size of files needs this: go test's log of opened files may already be
// longer.
func limitsFiles(t *testing.T) bool {
	t.Helper()
	const child = "TEST_LIMITS_FILES"
	if os.Getenv(child) != "" {
		return false
	}
	cmd := exec.Command("/proc/self/exe", "-test.run=^"+t.Name()+"$")
	cmd.Env = append(os.Environ(), child+"=1")
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Errorf("%v: %s", err, out)
	}
	return true
}

// Wherever a write of several facts is cut short, the ledger must have exactly the facts reported
// as written, followed by the next ones.
func TestShortWriteKeepsExactlyTheReportedFacts(t *testing.T) {
	if limitsFiles(t) {
		return
	}
	signal.Ignore(unix.SIGXFSZ)
	defer signal.Reset(unix.SIGXFSZ)
	var all unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_FSIZE, &all); err != nil {
		t.Fatal(err)
	}
	fact := func(id string) state.Fact { return state.Fact{Kind: state.KindStart, Job: "j", UniID: id} }
	first, _ := encode(new(fact("a")))
	for cut := range 2*len(first) + 2 {
		path := filepath.Join(t.TempDir(), "ledger")
		l, err := openLedger(path, false)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := l.append(fact("0")); err != nil {
			t.Fatal(err)
		}
		limit := all
		limit.Cur = uint64(len(first) + 1 + cut)
		if err := unix.Setrlimit(unix.RLIMIT_FSIZE, &limit); err != nil {
			t.Fatal(err)
		}
		n, err := l.append(fact("a"), fact("b"))
		_ = unix.Setrlimit(unix.RLIMIT_FSIZE, &all)
		if (err == nil) != (n == 2) {
			t.Fatalf("cut at %d: %d of 2 reported as written, %v", cut, n, err)
		}
		if _, err := l.append(fact("c")); err != nil {
			t.Fatal(err)
		}
		l.close()
		var want []byte
		for _, id := range append([]string{"0", "a", "b"}[:1+n], "c") {
			line, _ := encode(new(fact(id)))
			want = append(append(want, line...), '\n')
		}
		if got, _ := os.ReadFile(path); string(got) != string(want) {
			t.Fatalf("cut at %d, %d reported as written:\n got %s\nwant %s", cut, n, got, want)
		}
		if added := l.size - l.began; added != int64(len(want)) {
			t.Errorf("cut at %d: %d bytes were added, but the ledger counts %d", cut, len(want), added)
		}
	}
}
