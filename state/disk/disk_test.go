package disk

import (
	"errors"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"gpurun/state"
)

var noon = time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)

func exit(n int) *int { return &n }

// facts returns the ledger lines of a small batch: a job that succeeded, one that failed, and one
// that is running.
func facts() []state.Fact {
	run := Host()
	run.Time = noon
	return []state.Fact{
		run,
		{Kind: state.KindStart, Time: noon, Job: "a", Key: "ka", UniID: "u1", Attempt: 1, Commands: []string{"echo 'a\nb'"}, Log: "/l/a"},
		{Kind: state.KindRunning, Time: noon, UniID: "u1", PID: 4711, PIDStart: 99},
		{Kind: state.KindEnd, Time: noon, Job: "a", Key: "ka", UniID: "u1", State: state.Succeeded, ExitCode: exit(0), Seconds: 1.5},
		{Kind: state.KindStart, Time: noon, Job: "b", Key: "kb", UniID: "u2", Attempt: 1},
		{Kind: state.KindEnd, Time: noon, Job: "b", Key: "kb", UniID: "u2", State: state.Failed, ExitCode: exit(3), ErrorType: state.ErrExit},
		{Kind: state.KindStart, Time: noon, Job: "c", Key: "kc", UniID: "u3", Attempt: 1},
	}
}

// jobFile creates a job file in its own folder.
func jobFile(t *testing.T) string {
	t.Helper()
	dir, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(dir, "jobs.yaml")
	if err := os.WriteFile(path, []byte("jobs: []\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	return path
}

func open(t *testing.T, files ...string) *State {
	t.Helper()
	s, err := Open(files, Options{})
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// openIdle is like open, but the state is synced and checked only when the test calls s.sync.flush,
// and at the end.
func openIdle(t *testing.T, files ...string) *State {
	t.Helper()
	var run func()
	s, err := Open(files, Options{Go: func(f func()) { run = f }})
	if err != nil {
		t.Fatal(err)
	}
	go func() {
		<-s.sync.end
		run()
	}()
	return s
}

func write(t *testing.T, s *State, fs []state.Fact) {
	t.Helper()
	for _, f := range fs {
		if _, err := s.Append(0, f); err != nil {
			t.Fatal(err)
		}
	}
}

// ledgerOf returns the bytes of a ledger with the lines of facts.
func ledgerOf(t *testing.T) []byte {
	t.Helper()
	job := jobFile(t)
	s := open(t, job)
	write(t, s, facts())
	s.Close()
	b, err := os.ReadFile(filepath.Join(Folder(job, ""), ledgerName))
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func TestReloadedLedgerGivesTheSameHistory(t *testing.T) {
	job := jobFile(t)
	s := open(t, job)
	write(t, s, facts())
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	s = open(t, job)
	defer s.Close()
	h := s.History()
	a, b := h.Of(0, "ka"), h.Of(0, "kb")
	if a == nil || a.State != state.Succeeded || a.Seconds != 1.5 || !a.Start.Equal(noon) {
		t.Errorf("a: got %+v", a)
	}
	if b == nil || b.State != state.Failed || *b.ExitCode != 3 {
		t.Errorf("b: got %+v", b)
	}
	if len(h.Open) != 1 || h.Open["u3"] == nil {
		t.Errorf("open: got %+v", h.Open)
	}
	if len(s.Warnings()) != 0 {
		t.Errorf("warnings: %q", s.Warnings())
	}
}

// A crash can cut a ledger at any byte. All complete lines must still load, including one that
// lacks only its newline. The next line must not be appended to a torn one.
func TestLedgerTruncatedAtAnyByteLoads(t *testing.T) {
	whole := ledgerOf(t)
	job := jobFile(t)
	if err := os.MkdirAll(Folder(job, ""), 0o755); err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(Folder(job, ""), ledgerName)
	for n := range len(whole) {
		if err := os.WriteFile(path, whole[:n], 0o644); err != nil {
			t.Fatal(err)
		}
		s := open(t, job)
		torn := n > 0 && whole[n-1] != '\n' && whole[n] != '\n'
		if got := len(s.Warnings()) == 1; got != torn {
			t.Fatalf("cut at %d: warnings %q", n, s.Warnings())
		}
		if lines := strings.Count(string(whole[:n+1]), "\n"); lines >= 4 && s.History().Of(0, "ka") == nil {
			t.Fatalf("cut at %d: job a's end is missing", n)
		}
		write(t, s, []state.Fact{{Kind: state.KindEnd, Time: noon, Job: "z", Key: "kz", UniID: "u9", State: state.Succeeded}})
		s.Close()
		h, _, err := Load([]string{job}, Options{})
		if err != nil || h.Of(0, "kz") == nil {
			t.Fatalf("cut at %d: the next line is missing: %v", n, err)
		}
		if lines := strings.Count(string(whole[:n]), "\n"); lines >= 4 && h.Of(0, "ka") == nil {
			t.Fatalf("cut at %d: job a's end is missing after the next line", n)
		}
	}
}

func TestBrokenLinesAreReportedAndSkipped(t *testing.T) {
	good := strings.SplitAfter(string(ledgerOf(t)), "\n")
	tests := map[string]struct{ line, want string }{
		"garbage":      {"\x00\xff garbage\n", "skipped broken line 2"},
		"wrong type":   {`{"kind":"end","attempt":"x"}` + "\n", "skipped broken line 2"},
		"no kind":      {`{"time":"2026-11-21T12:00:00Z"}` + "\n", "skipped broken line 2"},
		"an array":     {"[1,2]\n", "skipped broken line 2"},
		"very long":    {`{"kind":"end","job":"` + strings.Repeat("x", 3<<20) + "\"}\n", "skipped broken line 2"},
		"unknown kind": {`{"kind":"holiday"}` + "\n", ""},
		"empty":        {"\n", ""},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			job := jobFile(t)
			os.MkdirAll(Folder(job, ""), 0o755)
			text := good[0] + tt.line + strings.Join(good[1:], "")
			if err := os.WriteFile(filepath.Join(Folder(job, ""), ledgerName), []byte(text), 0o644); err != nil {
				t.Fatal(err)
			}
			s := open(t, job)
			defer s.Close()
			if got := strings.Join(s.Warnings(), "\n"); (tt.want == "") != (got == "") || !strings.Contains(got, tt.want) {
				t.Errorf("warnings: got %q, want %q", got, tt.want)
			}
			if s.History().Of(0, "ka") == nil || s.History().Of(0, "kb") == nil {
				t.Error("the lines after the broken one are missing")
			}
		})
	}
}

func TestNewerLedgerIsRefused(t *testing.T) {
	job := jobFile(t)
	s := open(t, job)
	write(t, s, []state.Fact{{Kind: state.KindRun, Version: state.Version + 1, Gpurun: "v9.1.0", Time: noon}})
	s.Close()
	_, err := Open([]string{job}, Options{})
	if !errors.Is(err, ErrNewer) {
		t.Fatalf("got %v, want ErrNewer", err)
	}
	for _, want := range []string{"version 2, by gpurun v9.1.0", "reads up to version 1"} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("error %q lacks %q", err, want)
		}
	}
	// A refused Open releases the lock.
	if _, alive, err := Running(job, ""); alive || err != nil {
		t.Errorf("the lock is still held: %v, %v", alive, err)
	}
}

func TestSecondRunIsRefused(t *testing.T) {
	a, b := jobFile(t), jobFile(t)
	s := open(t, b)
	_, err := Open([]string{a, b}, Options{})
	var held *LockedError
	if !errors.As(err, &held) || held.PID != os.Getpid() || held.File != b || time.Since(held.Since) > time.Minute {
		t.Fatalf("got %v, want the lock of this process on b", err)
	}
	// The refused run must not keep any of the batch's locks.
	open(t, a).Close()
	if r, alive, err := Running(b, ""); !alive || err != nil || r.PID != os.Getpid() || !r.Here || r.UID != os.Getuid() {
		t.Errorf("Running: got %+v, %v, %v, want this process", r, alive, err)
	}
	s.Close()
	open(t, a, b).Close()
}

func TestLongLinesAreShortened(t *testing.T) {
	job := jobFile(t)
	s := open(t, job)
	huge := strings.Repeat("x", 200<<10)
	var inputs []state.Input
	for range 2000 {
		inputs = append(inputs, state.Input{Path: "/data/" + strings.Repeat("p", 50), Size: 1, MTime: noon})
	}
	write(t, s, []state.Fact{
		{Kind: state.KindStart, Time: noon, Job: "a", Key: "ka", UniID: "u1", Commands: []string{huge}, Inputs: inputs, Params: map[string]string{"x": huge}},
		{Kind: state.KindEnd, Time: noon, Job: "a", Key: "ka", UniID: "u1", State: state.Failed, Reason: huge, Metrics: map[string]any{"x": huge}},
	})
	s.Close()
	s = open(t, job)
	defer s.Close()
	r := s.History().Of(0, "ka")
	if len(s.Warnings()) > 0 || r == nil || r.State != state.Failed || len(r.Inputs) != 0 {
		t.Errorf("got %+v, warnings %q", r, s.Warnings())
	}
}

func TestLinkAndJobFileShareAStateFolder(t *testing.T) {
	job := jobFile(t)
	if got, want := Folder(job, ""), filepath.Join(filepath.Dir(job), ".gpurun", "jobs.yaml"); got != want {
		t.Errorf("got %s, want %s", got, want)
	}
	link := filepath.Join(t.TempDir(), "link.yaml")
	if err := os.Symlink(job, link); err != nil {
		t.Fatal(err)
	}
	if Folder(link, "") != Folder(job, "") || Folder(link, "/s") != Folder(job, "/s") {
		t.Error("a link to a job file has its own state")
	}
	if got := Folder(job, "/s"); !regexp.MustCompile(`^/s/jobs\.yaml-[0-9a-f]{8}$`).MatchString(got) {
		t.Errorf("got %s", got)
	}
}

// attemptFiles lists the files that a batch keeps for its attempts.
func attemptFiles(s *State) []string { return names(filepath.Join(s.files[0].dir, triesName)) }

// All attempts of a run have slots in one journal. Once an attempt's end is on disk, its slot is
// free for another attempt. The journal is removed with its last attempt.
func TestAttemptsShareOneJournal(t *testing.T) {
	job := jobFile(t)
	s := openIdle(t, job)
	slots := map[int]string{}
	for range 500 {
		id, slot, err := s.NewAttempt(0, false)
		if err != nil || slots[slot.N] != "" || !regexp.MustCompile(`^[0-9a-z-]+$`).MatchString(id) || filepath.Dir(slot.Journal) != filepath.Dir(s.AttemptDir(0, id)) {
			t.Fatalf("got %q %+v, %v", id, slot, err)
		}
		slots[slot.N] = id
	}
	if got := attemptFiles(s); len(got) != 1 {
		t.Errorf("got %q, want one journal", got)
	}
	os.WriteFile(s.AttemptDir(0, slots[7])+state.ResultSuffix, nil, 0o644)
	s.RemoveAttempt(0, slots[7])
	if _, slot, err := s.NewAttempt(0, false); err != nil || slot.N == 7 {
		t.Errorf("got slot %d, %v, but its end is not on disk yet", slot.N, err)
	}
	s.sync.flush()
	if id, slot, err := s.NewAttempt(0, false); err != nil || slot.N != 7 {
		t.Errorf("got slot %d, %v, want slot 7, which is free", slot.N, err)
	} else {
		slots[7] = id
	}
	if got := attemptFiles(s); len(got) != 1 {
		t.Errorf("got %q, want only the journal", got)
	}
	for id := range s.files[0].journal.slots {
		s.RemoveAttempt(0, id)
	}
	s.Close()
	if got := attemptFiles(s); len(got) != 0 {
		t.Errorf("leftover files after the run: %q", got)
	}
}

// A journal stays while one of its attempts is open, even across runs. Files of attempts that are
// in no ledger are removed, because those attempts never ran.
func TestJournalStaysWhileAnAttemptIsOpen(t *testing.T) {
	job := jobFile(t)
	s := open(t, job)
	id, slot, err := s.NewAttempt(0, false)
	if err != nil {
		t.Fatal(err)
	}
	other, _, _ := s.NewAttempt(0, false)
	os.WriteFile(slot.Journal, []byte(`00000000 {"state":"open","uni_id":"`+id+`"}`), 0o644)
	os.WriteFile(s.AttemptDir(0, other)+state.ResultSuffix, nil, 0o644)
	os.WriteFile(s.AttemptDir(0, other)+state.VoidSuffix, nil, 0o644)
	write(t, s, []state.Fact{{Kind: state.KindStart, UniID: id, Key: "k"}})
	s.Close()
	for range 2 {
		s = open(t, job)
		own, mine, err := s.NewAttempt(0, false)
		if err != nil || mine.Journal == slot.Journal {
			t.Fatalf("got %+v, %v, want a journal of its own", mine, err)
		}
		s.RemoveAttempt(0, own)
		s.sync.flush()
		s.Close()
		if got := attemptFiles(s); !slices.Contains(got, filepath.Base(slot.Journal)) || slices.Contains(got, other+state.ResultSuffix) || !slices.Contains(got, other+state.VoidSuffix) {
			t.Fatalf("got %q, want the journal of the open attempt, and the void file of the other attempt", got)
		}
	}
	s = open(t, job)
	write(t, s, []state.Fact{{Kind: state.KindEnd, UniID: id, Key: "k", State: state.Succeeded}})
	s.RemoveAttempt(0, id)
	s.Close()
	if got := attemptFiles(s); len(got) != 0 {
		t.Errorf("got %q, want no files once the attempt has ended", got)
	}
}

// If a user removes the journal of a live run, the next attempts get a new one.
func TestRemovedJournalIsReplaced(t *testing.T) {
	s := open(t, jobFile(t))
	defer s.Close()
	first, slot, err := s.NewAttempt(0, false)
	if err == nil {
		err = os.RemoveAll(filepath.Dir(slot.Journal))
	}
	if err != nil {
		t.Fatal(err)
	}
	_, next, err := s.NewAttempt(0, false)
	if err != nil || next.Journal == slot.Journal || next.N != 0 {
		t.Fatalf("got %+v, %v, want slot 0 of a new journal", next, err)
	}
	s.RemoveAttempt(0, first) // its slot was in the removed journal
	s.sync.flush()
	if _, third, err := s.NewAttempt(0, false); err != nil || third.N != 1 {
		t.Errorf("got %+v, %v, want slot 1", third, err)
	}
}

// Attempts on a cluster, and attempts of older versions, have folders instead of slots.
func TestClusterAttemptsHaveFolders(t *testing.T) {
	job := jobFile(t)
	s := open(t, job)
	id, slot, err := s.NewAttempt(0, true)
	if err != nil || slot.Journal != "" {
		t.Fatalf("got %+v, %v, want no slot", slot, err)
	}
	os.WriteFile(filepath.Join(s.AttemptDir(0, id), "status"), nil, 0o644)
	write(t, s, []state.Fact{{Kind: state.KindEnd, UniID: id, Key: "k", State: state.Succeeded}})
	s.RemoveAttempt(0, id)
	s.NewAttempt(0, true)
	s.Close()
	if _, err := os.Stat(s.AttemptDir(0, id)); !os.IsNotExist(err) {
		t.Errorf("the folder of the ended attempt is still there: %v", err)
	}
	// Folders of attempts that are in no ledger are removed. Those of open attempts stay.
	s = open(t, job)
	keep, _, _ := s.NewAttempt(0, true)
	write(t, s, []state.Fact{{Kind: state.KindStart, UniID: keep, Key: "k"}})
	s.Close()
	s = open(t, job)
	defer s.Close()
	s.sync.flush()
	if got := attemptFiles(s); len(got) != 1 || got[0] != keep {
		t.Errorf("got %q, want only %s", got, keep)
	}
}

func TestFreshLogKeepsThePreviousOne(t *testing.T) {
	dir := t.TempDir()
	log := filepath.Join(dir, "a.log")
	fresh := func(path string, want bool) {
		t.Helper()
		if empty, err := FreshLog(path, false, time.Time{}); err != nil || empty != want {
			t.Errorf("%s: empty %v, %v; want %v", path, empty, err, want)
		}
	}
	fresh(log, true)
	os.WriteFile(log, nil, 0o644)
	fresh(log, true)
	os.WriteFile(log, []byte("old"), 0o644)
	fresh(log, true)
	if b, _ := os.ReadFile(log + ".1"); string(b) != "old" {
		t.Errorf("the previous log is %q, want old", b)
	}
	link := filepath.Join(dir, "link.log")
	os.Symlink("/dev/null", link)
	fresh(link, false)
	if _, err := os.Lstat(link); err != nil {
		t.Error("FreshLog moved a symbolic link")
	}
	fresh("/dev/null", false)
}

// FreshLog must not replace a file that gpurun did not create with the previous log.
func TestFreshLogKeepsForeignFile(t *testing.T) {
	dir := t.TempDir()
	log := filepath.Join(dir, "result")
	write := func(path, text string) {
		t.Helper()
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	kept := func(own, moved bool, want string) {
		t.Helper()
		write(log, "log")
		if empty, err := FreshLog(log, own, time.Time{}); err != nil || empty != moved {
			t.Errorf("FreshLog: empty %v, %v; want %v", empty, err, moved)
		}
		if b, _ := os.ReadFile(log + ".1"); string(b) != want {
			t.Errorf("result.1 contains %q, want %q", b, want)
		}
	}
	write(log, "")
	if err := unix.Setxattr(log, "user.test", nil, 0); err != nil {
		t.Skip("no extended attributes here: ", err)
	}
	write(log+".1", "theirs")
	kept(false, false, "theirs")
	kept(false, false, "theirs")
	kept(true, true, "log")
	os.Remove(log + ".1")
	kept(false, true, "log")
	write(log+".1", "older")
	kept(false, true, "log")
}

// A log that was there before the first run is not gpurun's: later runs must not replace it, even if
// the file system has no extended attributes.
func TestFreshLogKeepsLogFromBeforeTheBatch(t *testing.T) {
	without := t.TempDir()
	if err := unix.Mount("none", without, "ramfs", 0, ""); err != nil {
		t.Log("only with extended attributes: ", err)
	} else {
		t.Cleanup(func() { unix.Unmount(without, 0) })
	}
	for _, dir := range []string{t.TempDir(), without} {
		job, log := jobFile(t), filepath.Join(dir, "train.log")
		content := func(text string) {
			t.Helper()
			if err := os.WriteFile(log, []byte(text), 0o644); err != nil {
				t.Fatal(err)
			}
		}
		content("theirs")
		if err := os.Chtimes(log, noon, noon.Add(-time.Hour)); err != nil {
			t.Fatal(err)
		}
		for run := range 3 {
			s := open(t, job)
			if run == 0 {
				write(t, s, facts()[:1])
			} else if !s.Began(0).Equal(noon) {
				t.Errorf("run %d: the batch began at %s, want %s", run, s.Began(0), noon)
			}
			if empty, err := FreshLog(log, false, s.Began(0)); err != nil || empty != (run == 0) {
				t.Errorf("run %d: empty %v, %v", run, empty, err)
			}
			s.Close()
			content("ours")
			if b, _ := os.ReadFile(log + ".1"); string(b) != "theirs" {
				t.Errorf("run %d: train.log.1 contains %q, want theirs", run, b)
			}
		}
	}
}

func TestOpenAttemptOnAnotherHostIsRefused(t *testing.T) {
	job := jobFile(t)
	s := open(t, job)
	there := Host()
	there.MachineID, there.Host, there.Time = "other", "gpu01", noon
	fs := facts()
	fs[0] = there
	write(t, s, fs)
	s.Close()
	var e *ElsewhereError
	if _, err := Open([]string{job}, Options{}); !errors.As(err, &e) || e.Host != "gpu01" || e.Job != "c" || e.Here {
		t.Fatalf("got %v, want job c open on gpu01", err)
	}
	s, err := Open([]string{job}, Options{Abandon: "gpu01"})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	if r := s.History().Of(0, "kc"); r == nil || r.State != state.Lost || len(s.History().Open) != 0 {
		t.Errorf("got %+v", r)
	}
}

// When a cluster job ends, so do the attempts that a run inside it started, but not those that the
// run reattached to.
func TestClusterJobEndsOnlyItsOwnAttempts(t *testing.T) {
	for _, within := range []string{"", "slurm/12/0/c"} {
		job := jobFile(t)
		s := open(t, job)
		there := Host()
		there.MachineID, there.Host, there.Time, there.Within = "other", "gpu01", noon, within
		fs := facts()
		fs[0] = there
		there.Within = "slurm/12/0/c"
		write(t, s, append(fs, there))
		s.Close()
		s, err := Open([]string{job}, Options{Over: func(run state.Fact, dir, uniID string) (recorded, cut bool) { return false, run.Within != "" }})
		if err == nil {
			s.Close()
		}
		if got := errors.As(err, new(*ElsewhereError)); got != (within == "") {
			t.Errorf("started within %q: got %v", within, err)
		}
	}
}

func TestReadOnlyFolderIsNamedInTheError(t *testing.T) {
	if os.Getuid() == 0 {
		t.Skip("root can write everywhere")
	}
	job := jobFile(t)
	os.Chmod(filepath.Dir(job), 0o555)
	defer os.Chmod(filepath.Dir(job), 0o755)
	_, err := Open([]string{job}, Options{})
	if err == nil || !strings.Contains(err.Error(), "--state-dir") {
		t.Errorf("got %v", err)
	}
	if _, _, err := Load([]string{job}, Options{}); err != nil {
		t.Errorf("Load needs a writable folder: %v", err)
	}
}

// /dev/full behaves like a full disk.
func TestAppendToFullDiskFails(t *testing.T) {
	f, err := os.OpenFile("/dev/full", os.O_WRONLY, 0)
	if err != nil {
		t.Skip(err)
	}
	l := &ledger{f: f, path: f.Name()}
	defer l.close()
	if n, err := l.append(facts()...); err == nil || n > 0 {
		t.Errorf("append to a full disk: %d facts written, %v", n, err)
	}
}

func TestBatchesListsOnlyThisFolder(t *testing.T) {
	for _, stateDir := range []string{"", t.TempDir()} {
		t.Run("state-dir="+filepath.Base(stateDir), func(t *testing.T) { batches(t, stateDir) })
	}
}

func batches(t *testing.T, stateDir string) {
	root := t.TempDir()
	mk := func(dir, name string, age time.Duration) string {
		os.MkdirAll(dir, 0o755)
		job := filepath.Join(dir, name)
		os.WriteFile(job, nil, 0o644)
		s, err := Open([]string{job}, Options{StateDir: stateDir})
		if err != nil {
			t.Fatal(err)
		}
		write(t, s, facts()[:1])
		s.Close()
		at := time.Now().Add(-age)
		os.Chtimes(filepath.Join(Folder(job, stateDir), ledgerName), at, at)
		return job
	}
	mk(t.TempDir(), "new.yaml", time.Second) // a batch of another project must not be listed
	old := mk(root, "old.yaml", time.Hour)
	gone := mk(root, "gone.yaml", 2*time.Hour)
	sub := mk(filepath.Join(root, "jobs"), "new.yaml", time.Minute)
	deep := filepath.Join(root, "jobs", "logs", "x")
	os.MkdirAll(deep, 0o755)
	os.Remove(gone)
	link := filepath.Join(deep, "link.yaml")
	os.Symlink(old, link)
	for _, tt := range []struct {
		list func(dir, stateDir string) []Batch
		dir  string
		want []string
	}{
		{Batches, root, []string{old, gone}},
		{Batches, filepath.Join(root, "jobs"), []string{sub}},
		{Batches, filepath.Join(root, "jobs", "logs"), nil},
		{Batches, deep, []string{link}},
		{NearbyBatches, root, []string{sub}},
		{NearbyBatches, filepath.Join(root, "jobs"), []string{old, gone}},
		{NearbyBatches, filepath.Join(root, "jobs", "logs"), []string{sub, link}},
		{Batches, t.TempDir(), nil},
	} {
		var got []string
		for _, b := range tt.list(tt.dir, stateDir) {
			got = append(got, b.File)
		}
		if !slices.Equal(got, tt.want) {
			t.Errorf("from %s: got %s, want %s", tt.dir, got, tt.want)
		}
	}
}

// The ledger stays open so that records can be read, until its history is closed.
func TestClosedHistoryHoldsNoFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), ledgerName)
	if err := os.WriteFile(path, []byte(`{"kind":"end","key":"k","uni_id":"u","state":"succeeded"}`+"\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	h := state.NewHistory()
	if err := newReader(path).load(h, 0, nil, false); err != nil {
		t.Fatal(err)
	}
	open := func() (n int) {
		for _, name := range names("/proc/self/fd") {
			if at, err := os.Readlink("/proc/self/fd/" + name); err == nil && at == path {
				n++
			}
		}
		return n
	}
	if open() != 1 || h.Of(0, "k") == nil {
		t.Fatal("the ledger is not open, or its record is not readable")
	}
	if h.Close(); open() != 0 {
		t.Error("the ledger is still open")
	}
}

func FuzzLedger(f *testing.F) {
	f.Add([]byte(`{"kind":"end","key":"k","uni_id":"u","state":"succeeded"}` + "\n"))
	f.Add([]byte("{\"kind\":\"run\",\"version\":9}\n{"))
	f.Add([]byte("\n\n\x00"))
	f.Fuzz(func(t *testing.T, b []byte) {
		path := filepath.Join(t.TempDir(), ledgerName)
		if err := os.WriteFile(path, b, 0o644); err != nil {
			t.Fatal(err)
		}
		h, r := state.NewHistory(), newReader(path)
		defer h.Close()
		if err := r.load(h, 0, nil, false); err == nil {
			same(t, h, plainly(t, path))
		} else if !errors.Is(err, ErrNewer) {
			t.Fatal(err)
		}
		// A Follower that reads the file in two steps must pass each complete line once, with the
		// same number as in one step.
		var once, grown []int64
		count := func(to *[]int64) func(int64, state.Fact) {
			return func(seq int64, _ state.Fact) { *to = append(*to, seq) }
		}
		all := FromStart(filepath.Dir(path)).Next(count(&once))
		os.WriteFile(path, b[:len(b)/2], 0o644)
		tail := FromStart(filepath.Dir(path))
		err := tail.Next(count(&grown))
		os.WriteFile(path, b, 0o644)
		if all == nil && (errors.Join(err, tail.Next(count(&grown))) != nil || !slices.Equal(once, grown)) {
			t.Fatalf("lines %v in one step, %v in two: %v", once, grown, err)
		}
		if end := Follow(filepath.Dir(path)); all == nil && (end.Line != tail.Line || end.Offset != tail.Offset) {
			t.Fatalf("Follow starts after %d lines and %d bytes, want %d and %d", end.Line, end.Offset, tail.Line, tail.Offset)
		}
		// Whatever the content, the next appended line must be readable.
		l, err := openLedger(path, r.torn)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := l.append(state.Fact{Kind: state.KindEnd, Key: "next", UniID: "next", State: state.Succeeded}); err != nil {
			t.Fatal(err)
		}
		l.close()
		got := state.NewHistory()
		defer got.Close()
		if err := newReader(path).load(got, 0, nil, false); err == nil && got.Of(0, "next") == nil {
			t.Fatal("the next line is missing")
		}
	})
}

func BenchmarkLoad(b *testing.B) {
	job := filepath.Join(b.TempDir(), "jobs.yaml")
	os.WriteFile(job, nil, 0o644)
	s, err := Open([]string{job}, Options{})
	if err != nil {
		b.Fatal(err)
	}
	for i := range 10000 {
		id := newUniID(noon)
		key := strings.Repeat("k", 28) + string(rune('a'+i%26)) + id[len(id)-3:]
		s.Append(0, state.Fact{Kind: state.KindStart, Time: noon, Job: "train-cifar10-" + id, Key: key, UniID: id, Attempt: 1, Commands: []string{"python train.py --seed 1"}, Log: "/home/u/p/logs/" + id})
		s.Append(0, state.Fact{Kind: state.KindEnd, Time: noon, Job: "train-cifar10-" + id, Key: key, UniID: id, Attempt: 1, State: state.Succeeded, ExitCode: exit(0), Seconds: 3})
	}
	s.Close()
	b.ReportAllocs()
	for b.Loop() {
		if _, _, err := Load([]string{job}, Options{}); err != nil {
			b.Fatal(err)
		}
	}
}
