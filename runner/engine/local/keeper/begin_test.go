package keeper

import (
	"errors"
	"os"
	"path/filepath"
	"sync"
	"testing"

	"gpurun/runner/engine"
	"gpurun/runner/engine/local/wire"
	"gpurun/state"
)

// journalFile creates an empty journal.
func journalFile(t *testing.T) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "run"+state.JournalSuffix)
	if err := os.WriteFile(path, nil, 0o644); err != nil {
		t.Fatal(err)
	}
	return path
}

// prepared returns an attempt whose record is in a journal's slot.
func prepared(t *testing.T, journal, uniID string, slot int) *attempt {
	t.Helper()
	dir := filepath.Join(filepath.Dir(journal), uniID)
	a := newAttempt(&keeper{}, &engine.Launch{Identity: engine.Identity{UniID: uniID, Dir: dir}, Slot: state.Slot{Journal: journal, N: slot}})
	if err := a.prepare(); err != nil {
		t.Fatal(err)
	}
	return a
}

// If a runner forbids a command while the keeper begins it, at least one of the two must notice.
// Otherwise a command that the runner believes forbidden would run.
func TestForbiddenCommandDoesNotBeginUnrecorded(t *testing.T) {
	journal := journalFile(t)
	for i := range 200 {
		a := prepared(t, journal, "u"+string(rune('a'+i%26)), 0)
		_ = os.Remove(a.Dir + state.VoidSuffix)
		var all sync.WaitGroup
		var begins error
		all.Go(func() {
			a.rec.Begun = 1
			begins = a.begin()
		})
		err := wire.Forbid(a.Dir)
		rec, found := wire.Find(a.Dir, a.UniID)
		all.Wait()
		if err != nil || found != nil {
			t.Fatal(err, found)
		}
		if begins == nil && rec.Begun == 0 {
			t.Fatal("the command begins, but the runner that forbade it finds no record of that")
		}
	}
}

// A command must not begin if it is forbidden. It must not begin without its journal either,
// because its record could not be found.
func TestCommandNeedsItsJournalToBegin(t *testing.T) {
	journal := journalFile(t)
	forbidden, other := prepared(t, journal, "a", 0), prepared(t, journal, "b", 1)
	if err := wire.Forbid(forbidden.Dir); err != nil {
		t.Fatal(err)
	}
	if err := forbidden.begin(); !errors.Is(err, errForbidden) {
		t.Errorf("forbidden attempt: begin returned %v", err)
	}
	if err := other.begin(); err != nil {
		t.Errorf("another attempt: begin returned %v", err)
	}
	if err := os.Remove(journal); err != nil {
		t.Fatal(err)
	}
	if err := other.begin(); !errors.Is(err, errForbidden) {
		t.Errorf("journal removed: begin returned %v", err)
	}
}
