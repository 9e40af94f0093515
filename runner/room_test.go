package runner

import (
	"fmt"
	"slices"
	"sync/atomic"
	"testing"
	"testing/synctest"

	"golang.org/x/sys/unix"

	"gpurun/runner/engine"
	"gpurun/state"
	"gpurun/state/disk"
)

// smallLedger is a ledger with room for only a few attempts.
type smallLedger struct {
	*memory
	room atomic.Int32
}

func (m *smallLedger) NewAttempt(file int, apart bool) (string, state.Slot, error) {
	if m.room.Add(-1) < 0 {
		return "", state.Slot{}, &disk.FolderError{Dir: m.dir, Err: unix.ENOSPC}
	}
	return m.memory.NewAttempt(file, apart)
}

func TestFullDiskAtAttemptFolderDoesNotFailJob(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newTestRun(t, "settings: {max_concurrent: 1}\n"+chain[1:], "", exits(nil))
		m := &smallLedger{memory: w.memory}
		m.room.Store(1)
		w.Ledger = m
		r := w.run()
		if r.StateErr == nil || r.Final.Counts[state.Pending] != 3 {
			t.Errorf("got %v, %v", r.StateErr, r.Final.Counts)
		}
		if got := w.memory.ends(); !slices.Equal(got, []string{"a: succeeded"}) {
			t.Errorf("got %q", got)
		}
	})
}

func TestFullDiskAtRecordOrLogDoesNotFailJob(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newTestRun(t, "settings: {max_concurrent: 1}\n"+chain[1:], "", func(l engine.Launch) Play {
			return Play{Err: "cannot write the status record", NoRoom: l.Job != "a"}
		})
		r := w.run()
		if r.StateErr == nil || r.Final.Counts[state.Interrupted] != 1 {
			t.Errorf("got %v, %v", r.StateErr, r.Final.Counts)
		}
		if got, want := fmt.Sprint(w.memory.ends()), "[a: failed d: interrupted]"; got != want {
			t.Errorf("got %s, want %s", got, want)
		}
	})
}

// An end is shorter than a start, so it may fit where its start did not. It must not be recorded
// alone.
func TestEndIsNotWrittenWithoutStart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newTestRun(t, "settings: {max_concurrent: 1}\n"+chain[1:], "", exits(nil))
		starts := 0
		w.memory.full = func(f state.Fact) bool {
			if f.Kind == state.KindStart {
				starts++
			}
			return f.Kind == state.KindStart && starts == 2
		}
		r := w.run()
		if r.StateErr == nil || r.Final.Counts[state.Pending] != 3 {
			t.Errorf("got %v, %v", r.StateErr, r.Final.Counts)
		}
		if got := w.memory.ends(); !slices.Equal(got, []string{"a: succeeded"}) {
			t.Errorf("got %q", got)
		}
	})
}
