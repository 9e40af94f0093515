package keeper

import (
	"os"
	"strings"
	"testing"

	"gpurun/runner/engine"
	"gpurun/runner/engine/local/wire"
	"gpurun/state"
)

// If the record of an end cannot be written, the keeper still reports the end to runners, with the
// reason, and keeps running to retry.
func TestUnwritableEndIsStillReported(t *testing.T) {
	k, err := newKeeper()
	if err != nil {
		t.Fatal(err)
	}
	path := journalFile(t)
	a := newAttempt(k, &engine.Launch{Identity: engine.Identity{UniID: "u1", Dir: path + ".u1"}, Slot: state.Slot{Journal: path}})
	if err := a.prepare(); err != nil {
		t.Fatal(err)
	}
	if a.file, err = os.Open(path); err != nil {
		t.Fatal(err)
	}
	a.rec.ExitCode = 3
	k.links[new(wire.Link)] = true // a runner waits for the end
	e := a.finish()
	if e.ExitCode != 3 || !strings.Contains(e.Unsaved, path) {
		t.Errorf("got %+v, want exit 3, and Unsaved to name %s", e, path)
	}
	k.mu.Lock()
	stays := k.outlasts
	k.mu.Unlock()
	if stays != 1 {
		t.Error("the keeper does not keep running for the record")
	}
}
