package local

import (
	"fmt"
	"path/filepath"
	"testing"
	"time"

	"gpurun/runner/engine"
	"gpurun/runner/engine/local/wire"
	"gpurun/runner/engine/procs"
	"gpurun/state"
)

// An attempt without a keeper or live processes ends as its record says. The record is in a journal
// or, if a keeper of version 1 wrote it, in a folder.
func TestSettleFollowsTheRecord(t *testing.T) {
	gone := procs.ID{PID: 1 << 22, Start: 4711}
	began := fmt.Sprintf("%d (sh) S 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 %d\n", gone.PID, gone.Start)
	open := func(begun int, roots ...procs.ID) *wire.Record {
		return &wire.Record{State: wire.StateOpen, UniID: "u", Steps: 2, Begun: begun, Roots: roots}
	}
	over := &wire.Record{State: wire.StateOver, UniID: "u", Steps: 1, Begun: 1, End: state.End{ExitCode: 7}}
	const exit7, void, lost = "exit 7  why \"\" lost false void false", "exit -1  why \"\" lost true void true", lostRunning
	for name, c := range map[string]struct {
		put  func(dir string)
		want string
	}{
		"no record":                 {func(string) {}, void},
		"never begun":               {func(dir string) { putRecord(t, dir, open(0)) }, void},
		"begun":                     {func(dir string) { putRecord(t, dir, open(1, gone)) }, lost},
		"process not recorded":      {func(dir string) { putRecord(t, dir, open(2, gone, procs.ID{})) }, lost},
		"over":                      {func(dir string) { putRecord(t, dir, over) }, exit7},
		"old: never begun":          {func(dir string) { oldRecord(t, dir, open(0)) }, void},
		"old: first command void":   {func(dir string) { oldRecord(t, dir, open(0), "void\n") }, void},
		"old: begun":                {func(dir string) { oldRecord(t, dir, open(0), began) }, lost},
		"old: second command void":  {func(dir string) { oldRecord(t, dir, open(0), began, "void\n") }, lost},
		"old: process not recorded": {func(dir string) { oldRecord(t, dir, open(0), "") }, lost},
		"old: over":                 {func(dir string) { oldRecord(t, dir, over, began) }, exit7},
	} {
		t.Run(name, func(t *testing.T) {
			dir := filepath.Join(t.TempDir(), "u")
			c.put(dir)
			for range 2 { // the next runner must get the same result
				l := newLocal(engine.Config{Dir: dir})
				e := newEntry(engine.Attempt{Identity: engine.Identity{UniID: "u", Dir: dir}, Started: time.Now()})
				if got := lostOutcome(*l.follow(e)); got != c.want {
					t.Errorf("got %s, want %s", got, c.want)
				}
			}
		})
	}
}

// An attempt whose journal was removed has begun if the ledger has its process.
func TestSettleWithoutJournalFollowsLedger(t *testing.T) {
	p := sleeper(t)
	l := newLocal(engine.Config{})
	dir := t.TempDir()
	uniID := filepath.Base(filepath.Dir(dir)) // unique, because all processes that have it are ended
	e := newEntry(engine.Attempt{Identity: engine.Identity{UniID: uniID, Dir: filepath.Join(dir, uniID)}})
	e.roots = []procs.ID{p.ID}
	e.stops.Put(&wire.Message{Op: wire.Stop, How: engine.Kill})
	if got := lostOutcome(*l.follow(e)); got != lostRunning {
		t.Errorf("ended as %s, want %s", got, lostRunning)
	}
}
