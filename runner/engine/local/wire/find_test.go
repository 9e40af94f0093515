package wire

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"reflect"
	"testing"

	"gpurun/runner/engine/procs"
	"gpurun/state"
)

// journalOf writes records to the slots of a journal and returns the folder of the first attempt.
func journalOf(t testing.TB, all ...*Record) (dir string) {
	t.Helper()
	parent := t.TempDir()
	f, err := os.Create(filepath.Join(parent, "run"+state.JournalSuffix))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	for i, r := range all {
		r.Slot = state.Slot{Journal: f.Name(), N: i}
		if err := r.Put(f); err != nil {
			t.Fatal(err)
		}
	}
	return filepath.Join(parent, all[0].UniID)
}

func TestFindReturnsTheAttemptsRecord(t *testing.T) {
	a := &Record{State: StateOver, UniID: "a", Begun: 2, Roots: []procs.ID{{PID: 1, Start: 2}, {}}, End: state.End{ExitCode: 3}}
	b, c := &Record{State: StateOpen, UniID: "b"}, &Record{State: StateOpen, UniID: "c"}
	dir := journalOf(t, a, b, c)
	for _, r := range []*Record{a, b, c} {
		if got, err := Find(filepath.Join(filepath.Dir(dir), r.UniID), r.UniID); err != nil || !reflect.DeepEqual(got, r) {
			t.Errorf("got %+v, %v, want %+v", got, err, r)
		}
	}
	if r, err := Find(filepath.Join(filepath.Dir(dir), "d"), "d"); !errors.Is(err, ErrNoRecord) {
		t.Errorf("attempt without a slot: got %+v, %v", r, err)
	}
}

// If a crash or a full disk cuts a record short at any byte, Find must find no record. Other
// records are unaffected.
func TestTornRecordIsNotFound(t *testing.T) {
	first, torn := &Record{State: StateOpen, UniID: "a"}, &Record{State: StateOver, UniID: "b", End: state.End{ExitCode: 0}}
	dir := journalOf(t, first, torn)
	text := bytes.TrimRight(torn.Encode(), " \n")
	for i := range text {
		if err := os.WriteFile(first.Slot.Journal, append(first.Encode(), text[:i]...), 0o644); err != nil {
			t.Fatal(err)
		}
		if r, err := Find(filepath.Join(filepath.Dir(dir), "b"), "b"); !errors.Is(err, ErrNoRecord) {
			t.Fatalf("cut at byte %d: got %+v, %v, want ErrNoRecord", i, r, err)
		}
		if r, err := Find(dir, "a"); err != nil || r.State != StateOpen {
			t.Fatalf("cut at byte %d: got %+v, %v for the other record", i, r, err)
		}
	}
}

// An unreadable journal is an error, not evidence that no command began.
func TestUnreadableJournalIsAnError(t *testing.T) {
	dir := journalOf(t, &Record{UniID: "a"})
	path := filepath.Join(filepath.Dir(dir), "run"+state.JournalSuffix)
	if err := errors.Join(os.Remove(path), os.Mkdir(path, 0o755)); err != nil {
		t.Fatal(err)
	}
	if _, err := Find(dir, "a"); err == nil || errors.Is(err, ErrNoRecord) {
		t.Errorf("got %v, want an error other than ErrNoRecord", err)
	}
}

// FuzzJournal checks that Find accepts any journal content, and returns a whole record unless the
// same uni_id occurs elsewhere.
func FuzzJournal(f *testing.F) {
	whole := &Record{State: StateOver, UniID: "mine", Begun: 1, End: state.End{ExitCode: 5}}
	other := (&Record{State: StateOpen, UniID: "theirs"}).Encode()
	f.Add(other, other, 17)
	f.Add(bytes.Repeat([]byte{0}, 2*StatusSize), other[:100], 0)
	f.Add([]byte(`"uni_id":"theirs"`), []byte(`{"uni_id":"`), 3)
	parent := f.TempDir()
	path := filepath.Join(parent, "run"+state.JournalSuffix)
	f.Fuzz(func(t *testing.T, before, after []byte, cut int) {
		before = append(before, make([]byte, (StatusSize-len(before)%StatusSize)%StatusSize)...)
		b := append(append(before, whole.Encode()...), after...)
		if err := os.WriteFile(path, b, 0o644); err != nil {
			t.Fatal(err)
		}
		r, err := Find(filepath.Join(parent, "theirs"), "theirs")
		if (r == nil) == (err == nil) || r != nil && r.UniID != "theirs" {
			t.Fatalf("got %+v, %v", r, err)
		}
		mine := []byte(`"uni_id":"mine"`)
		if r, err = Find(filepath.Join(parent, "mine"), "mine"); !bytes.Contains(before, mine) && !bytes.Contains(after, mine) && (err != nil || r.ExitCode != 5) {
			t.Fatalf("got %+v, %v", r, err)
		}
		if cut > 0 { // cut short by a crash
			if err := os.Truncate(path, int64(cut%(len(b)+1))); err != nil {
				t.Fatal(err)
			}
			if r, err = Find(filepath.Join(parent, "mine"), "mine"); (r == nil) == (err == nil) {
				t.Fatalf("got %+v, %v", r, err)
			}
		}
	})
}
