package disk

import (
	"errors"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"gpurun/state"
)

// Users may change the ledger of a live run in any of these ways. Each of the run's records must
// still end up in the ledger exactly once. A change that loses lines is reported.
func TestChangedLedgerGetsTheRunsLinesBack(t *testing.T) {
	truncate := func(path string) error { return os.Truncate(path, 0) }
	for name, c := range map[string]struct {
		touch func(path string) error
		told  string // part of the error; "" for none
		old   bool   // whether lines from before this run must survive
	}{
		"removed":   {os.Remove, "removed ledger.jsonl", true},
		"moved":     {func(path string) error { return os.Rename(filepath.Dir(path), filepath.Dir(path)+".old") }, "moved ledger.jsonl to ", true},
		"truncated": {truncate, "truncated ledger.jsonl", false},
		"cut short": {func(path string) error {
			fi, err := os.Stat(path)
			return errors.Join(err, os.Truncate(path, fi.Size()-5))
		}, "truncated ledger.jsonl", true},
		"replaced": {func(path string) error {
			return errors.Join(os.WriteFile(path+".new", nil, 0o644), os.Rename(path+".new", path))
		}, "replaced ledger.jsonl", false},
		"replaced, with a hard link to the old file": {func(path string) error {
			return errors.Join(os.Link(path, path+".bak"), os.WriteFile(path+".new", []byte("{\"ki"), 0o644), os.Rename(path+".new", path))
		}, "replaced ledger.jsonl", false},
		"rewritten by an editor": {func(path string) error {
			b, err := os.ReadFile(path)
			return errors.Join(err, os.Remove(path), os.WriteFile(path, b, 0o644))
		}, "", true},
		"appended to": {func(path string) error {
			f, err := os.OpenFile(path, os.O_WRONLY|os.O_APPEND, 0)
			if err != nil {
				return err
			}
			defer f.Close()
			_, err = f.WriteString("a note\n")
			return err
		}, "", true},
	} {
		t.Run(name, func(t *testing.T) {
			job := jobFile(t)
			s := open(t, job)
			write(t, s, []state.Fact{{Kind: state.KindEnd, Key: "old", State: state.Succeeded}})
			s.Close()
			s = openIdle(t, job)
			write(t, s, []state.Fact{{Kind: state.KindEnd, Key: "before", State: state.Succeeded}})
			if err := c.touch(filepath.Join(s.Dir(0), ledgerName)); err != nil {
				t.Fatal(err)
			}
			after := state.Fact{Kind: state.KindEnd, Key: "after", State: state.Succeeded}
			_, err := s.Append(0, after)
			var taken *TakenError
			if (err != nil) != (c.told != "") || err != nil && (!errors.As(err, &taken) || !strings.Contains(err.Error(), c.told)) {
				t.Errorf("got %v, want %q", err, c.told)
			}
			if err != nil {
				write(t, s, []state.Fact{after})
			}
			if err := s.Close(); err != nil {
				t.Errorf("Close reports the change again: %v", err)
			}
			h, _, err := Load([]string{job}, Options{})
			if err != nil || h.Of(0, "before") == nil || h.Of(0, "after") == nil || (h.Of(0, "old") != nil) != c.old {
				t.Errorf("got %d records, %v, want before, after, and old: %v", count(h), err, c.old)
			}
			b, _ := os.ReadFile(filepath.Join(s.Dir(0), ledgerName))
			if n := strings.Count(string(b), `"before","state":"succeeded"}`); n != 1 {
				t.Errorf("the record is in the ledger %d times, want once:\n%s", n, b)
			}
		})
	}
}

// If there is no room to restore a removed ledger, a later try must still restore all of it.
func TestRemovedLedgerIsRestoredOnceThereIsRoom(t *testing.T) {
	if limitsFiles(t) {
		return
	}
	signal.Ignore(unix.SIGXFSZ)
	defer signal.Reset(unix.SIGXFSZ)
	var all unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_FSIZE, &all); err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), ledgerName)
	end := func(key string) state.Fact { return state.Fact{Kind: state.KindEnd, Key: key, State: state.Succeeded} }
	old, _ := encode(new(end("old")))
	if err := os.WriteFile(path, append(old, '\n'), 0o644); err != nil {
		t.Fatal(err)
	}
	l, err := openLedger(path, false)
	if err != nil {
		t.Fatal(err)
	}
	defer l.close()
	_, err = l.append(end("before"))
	if err := errors.Join(err, os.Remove(path)); err != nil {
		t.Fatal(err)
	}
	limit := all
	limit.Cur = 10
	if err := unix.Setrlimit(unix.RLIMIT_FSIZE, &limit); err != nil {
		t.Fatal(err)
	}
	_, err = l.append(end("after"))
	_ = unix.Setrlimit(unix.RLIMIT_FSIZE, &all)
	if err == nil || !strings.Contains(err.Error(), "failed") {
		t.Fatalf("got %v without room, want that restoring failed", err)
	}
	for range 2 { // the first try reports the change
		_, err = l.append(end("after"))
	}
	if err != nil {
		t.Fatal(err)
	}
	b, _ := os.ReadFile(path)
	for _, key := range []string{"old", "before", "after"} {
		if !strings.Contains(string(b), `"key":"`+key+`"`) {
			t.Errorf("%s is not in the ledger:\n%s", key, b)
		}
	}
}

// A run that writes nothing must also notice that its ledger or lock file was removed. It must
// still hold the lock.
func TestIdleRunNoticesChangedState(t *testing.T) {
	for _, name := range []string{ledgerName, lockName} {
		s := open(t, jobFile(t))
		write(t, s, []state.Fact{{Kind: state.KindRun}})
		if err := os.Remove(filepath.Join(s.Dir(0), name)); err != nil {
			t.Fatal(err)
		}
		var err error
		for end := time.Now().Add(time.Minute); err == nil && time.Now().Before(end); time.Sleep(time.Millisecond) {
			err = s.Failure()
		}
		if err == nil || !strings.Contains(err.Error(), name) {
			t.Errorf("got %v, want a failure that names %s", err, name)
		}
		if _, err := Open([]string{s.files[0].job}, Options{}); !errors.As(err, new(*LockedError)) {
			t.Errorf("a second run: got %v, want that it is locked", err)
		}
		s.Close()
	}
}

// After a user has changed the ledger, no job starts, even if the syncer noticed the change first.
// Ends are still written.
func TestNothingStartsAfterLedgerWasChanged(t *testing.T) {
	s := open(t, jobFile(t))
	write(t, s, []state.Fact{{Kind: state.KindRun}})
	path := filepath.Join(s.Dir(0), ledgerName)
	if err := errors.Join(os.WriteFile(path+".new", nil, 0o644), os.Rename(path+".new", path)); err != nil {
		t.Fatal(err)
	}
	for end := time.Now().Add(time.Minute); s.Failure() == nil; time.Sleep(time.Millisecond) { // without an Append, the syncer checks
		if time.Now().After(end) {
			t.Fatal("the syncer did not notice the replaced ledger within a minute")
		}
	}
	if _, err := s.Append(0, state.Fact{Kind: state.KindEnd, Key: "a", State: state.Succeeded}); err != nil {
		t.Errorf("an end was refused: %v", err)
	}
	if n, err := s.Append(0, state.Fact{Kind: state.KindStart, Key: "b"}); n != 0 || !errors.As(err, new(*TakenError)) {
		t.Errorf("a start: %d written, %v, want it refused", n, err)
	}
	s.Close()
}

// A job file never runs twice at the same time, whatever its name or state folder. It may run under
// a lock inherited from the process that started gpurun.
func TestJobFileNeverRunsTwiceAtOnce(t *testing.T) {
	job := jobFile(t)
	if err := os.WriteFile(job, []byte("jobs: []\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	other := filepath.Join(t.TempDir(), "other.yaml")
	if err := os.Link(job, other); err != nil {
		t.Skip(err)
	}
	s := open(t, job)
	for _, again := range []func() (*State, error){
		func() (*State, error) { return Open([]string{job}, Options{StateDir: t.TempDir()}) },
		func() (*State, error) { return Open([]string{other}, Options{}) },
		func() (*State, error) {
			return Open([]string{job}, Options{})
		},
	} {
		var locked *LockedError
		if _, err := again(); !errors.As(err, &locked) || locked.PID != os.Getpid() {
			t.Errorf("got %v, want the lock of this process", err)
		}
	}
	s.Close()
	both, err := Open([]string{job, other}, Options{})
	if err != nil {
		t.Fatalf("one file under two names: %v", err)
	}
	both.Close()
	f, err := os.Open(job)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if err := unix.Flock(int(f.Fd()), unix.LOCK_EX); err != nil {
		t.Fatal(err)
	}
	if _, err := Open([]string{job}, Options{}); !errors.As(err, new(*LockedError)) {
		t.Errorf("another process's lock on the job file: got %v, want that it is locked", err)
	}
	if _, err := unix.FcntlInt(f.Fd(), unix.F_SETFD, 0); err != nil { // like a descriptor inherited from flock(1)
		t.Fatal(err)
	}
	open(t, job).Close()
}

func TestAnotherUsersLockIsIgnored(t *testing.T) {
	if os.Getuid() != 0 {
		t.Skip("only root can be another user")
	}
	if _, err := exec.LookPath("setpriv"); err != nil {
		t.Skip(err)
	}
	dir, err := os.MkdirTemp("/var/tmp", "joblock-")
	if err != nil {
		t.Fatal(err)
	}
	defer os.RemoveAll(dir)
	job := filepath.Join(dir, "jobs.yaml")
	if err := errors.Join(os.Chmod(dir, 0o755), os.WriteFile(job, nil, 0o644)); err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command("setpriv", "--reuid=61001", "--clear-groups", "flock", job, "sh", "-c", "echo locked; read end")
	in, _ := cmd.StdinPipe()
	out, _ := cmd.StdoutPipe()
	if err := cmd.Start(); err != nil {
		t.Skip(err)
	}
	defer cmd.Wait()
	defer in.Close()
	if n, err := out.Read(make([]byte, 7)); err != nil {
		t.Fatalf("flock printed %d bytes, %v", n, err)
	}
	open(t, job).Close()
}

// Machines cloned from one image share a machine ID, but neither host name nor boot ID. A machine
// that was only renamed or only rebooted is still the same.
func TestClonedMachineIsAnotherMachine(t *testing.T) {
	for _, c := range []struct {
		host, boot string
		elsewhere  bool
	}{{"clone", "other boot", true}, {"", "other boot", false}, {"renamed", "", false}} {
		job := jobFile(t)
		s := open(t, job)
		there := Host()
		there.Time = noon
		if c.host != "" {
			there.Host = c.host
		}
		if c.boot != "" {
			there.BootID = c.boot
		}
		write(t, s, []state.Fact{there, {Kind: state.KindStart, Time: noon, Job: "a", Key: "k", UniID: "u"}})
		s.Close()
		s, err := Open([]string{job}, Options{})
		if errors.As(err, new(*ElsewhereError)) != c.elsewhere {
			t.Errorf("%+v: %v", c, err)
		}
		if err == nil {
			s.Close()
		}
	}
}

// FuzzTouched checks that a run's records survive anything that is written over its ledger, in
// place or as a new file.
func FuzzTouched(f *testing.F) {
	f.Add([]byte("{\"kind\":\"end\"}\n"), true, uint8(0))
	f.Add([]byte("{\"kind\":\"e"), false, uint8(30))
	f.Add([]byte(nil), true, uint8(200))
	f.Fuzz(func(t *testing.T, b []byte, anew bool, keep uint8) {
		path := filepath.Join(t.TempDir(), ledgerName)
		l, err := openLedger(path, false)
		if err != nil {
			t.Fatal(err)
		}
		defer func() { l.close() }()
		end := func(key string) state.Fact { return state.Fact{Kind: state.KindEnd, Key: key, State: state.Succeeded} }
		if _, err := l.append(end("first"), end("second")); err != nil {
			t.Fatal(err)
		}
		was, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		b = append(was[:min(int(keep), len(was)):min(int(keep), len(was))], b...)
		if len(b) == len(was) {
			return // an edit of equal length within the last second goes unnoticed
		}
		if anew {
			os.Remove(path)
		}
		if err := os.WriteFile(path, b, 0o644); err != nil {
			t.Fatal(err)
		}
		if _, err := l.append(end("third")); err != nil {
			if !errors.As(err, new(*TakenError)) {
				t.Fatal(err)
			}
			if _, err := l.append(end("third")); err != nil {
				t.Fatal(err)
			}
		}
		seen := map[string]bool{}
		r := newReader(path)
		now, err := r.open()
		if err != nil {
			t.Fatal(err)
		}
		defer now.Close()
		if err := r.read(now, func(f *state.Fact, _ int64) { seen[f.Key] = true }); err != nil {
			if errors.Is(err, ErrNewer) {
				return
			}
			t.Fatal(err)
		}
		if !seen["first"] || !seen["second"] || !seen["third"] {
			got, _ := os.ReadFile(path)
			t.Errorf("ledger %q overwritten with %q: got keys %v from\n%q", was, b, seen, got)
		}
	})
}

// The syncer checks about once a second, but must report a failure that stays only once.
func TestRepeatedFailureIsReportedOnce(t *testing.T) {
	var s syncer
	for range 3 {
		s.failed(&TakenError{What: "removed ledger.jsonl"})
	}
	if err := s.failure(); err == nil {
		t.Error("the failure is not reported")
	}
	s.failed(&TakenError{What: "removed ledger.jsonl"})
	if err := s.failure(); err != nil || strings.Count(s.err.Error(), "\n") > 0 {
		t.Errorf("reported again: %v; all: %v", err, s.err)
	}
	s.failed(&TakenError{What: "removed lock"})
	if s.failure() == nil {
		t.Error("another failure is not reported")
	}
}
