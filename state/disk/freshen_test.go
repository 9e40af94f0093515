package disk

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"gpurun/state"
)

// addEnds appends n ends of about 1 KiB each, for jobs numbered from first.
func addEnds(t *testing.T, s *State, first, n int) {
	t.Helper()
	for i := first; i < first+n; i++ {
		_, err := s.Append(0, state.Fact{
			Kind: state.KindEnd, Time: noon.Add(time.Duration(i)), Key: fmt.Sprintf("%032x", i), Job: fmt.Sprint("j", i),
			State: state.Failed, Reason: strings.Repeat("x", 900),
		})
		if err != nil {
			t.Fatal(err)
		}
	}
}

// coverage returns how many bytes of a job file's ledger are covered by its index (0 if there is
// none), and the ledger's size.
func coverage(t *testing.T, job string) (bytes, of int64) {
	t.Helper()
	path := filepath.Join(Folder(job, ""), ledgerName)
	ledger, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer ledger.Close()
	fi, err := ledger.Stat()
	if err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(indexPath(path) + ".new"); err == nil {
		t.Error("leftover of a partly written index")
	}
	c, _, _ := readIndex(path, ledger)
	return c.Offset, fi.Size()
}

// A run that has added many lines writes the index when it closes, so that the next run need not
// read those lines. There is no new index after a few lines or while an attempt is open.
func TestCloseIndexesLinesTheRunAdded(t *testing.T) {
	job := jobFile(t)
	run := func(do func(s *State)) (bytes, of int64) {
		s := open(t, job)
		do(s)
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
		return coverage(t, job)
	}
	if bytes, _ := run(func(s *State) { addEnds(t, s, 0, 100) }); bytes != 0 {
		t.Errorf("an index covers %d bytes of a short ledger", bytes)
	}
	bytes, of := run(func(s *State) { addEnds(t, s, 100, 5000) })
	if bytes != of || of < indexFrom {
		t.Errorf("the index covers %d of %d bytes, want all", bytes, of)
	}
	before := bytes
	if bytes, of = run(func(s *State) { addEnds(t, s, 50, 100) }); bytes != before || of == before {
		t.Errorf("after a few more lines, the index covers %d of %d bytes, want %d as before", bytes, of, before)
	}
	attempt := state.Fact{Kind: state.KindStart, Time: noon, Key: fmt.Sprintf("%032x", 7), UniID: "u", Attempt: 1}
	bytes, of = run(func(s *State) {
		addEnds(t, s, 0, 5000)
		write(t, s, []state.Fact{attempt})
	})
	if bytes != before {
		t.Errorf("the index covers %d of %d bytes while an attempt is open, want %d as before", bytes, of, before)
	}
	attempt.Kind, attempt.State = state.KindEnd, state.Succeeded
	bytes, of = run(func(s *State) {
		if got := s.History().Of(0, attempt.Key); got == nil || got.Reason == "" || len(s.History().Open) != 1 {
			t.Errorf("got %+v and %d open attempts", got, len(s.History().Open))
		}
		write(t, s, []state.Fact{attempt})
	})
	if bytes != before {
		t.Errorf("after a single line, the index covers %d of %d bytes, want %d as before", bytes, of, before)
	}
	bytes, of = run(func(s *State) { // this run has read many lines
		if got := s.History().Of(0, attempt.Key); got == nil || got.State != state.Succeeded || got.UniID != "u" {
			t.Errorf("got %+v", got)
		}
	})
	if bytes != of {
		t.Errorf("the index covers %d of %d bytes, want all", bytes, of)
	}
	f, err := os.OpenFile(filepath.Join(Folder(job, ""), ledgerName), os.O_APPEND|os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	fmt.Fprintln(f, "broken")
	f.Close()
	for range 2 { // every reader warns again
		bytes, of = run(func(s *State) {
			if w := s.Warnings(); len(w) != 1 || !strings.Contains(w[0], ": invalid JSON") {
				t.Errorf("got warnings %q, want one", w)
			}
			addEnds(t, s, 0, 9000)
		})
		if bytes != of {
			t.Errorf("the index covers %d of %d bytes, want all", bytes, of)
		}
	}
}
