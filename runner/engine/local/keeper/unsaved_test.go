package keeper

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"gpurun/runner/engine"
	"gpurun/runner/engine/local/wire"
)

// If the disk no longer takes records, runners still learn of the end, with the reason,
// and the keeper stays until the record is written or not needed.
func TestEndCannotBeWritten(t *testing.T) {
	k, err := newKeeper()
	if err != nil {
		t.Fatal(err)
	}
	dir := filepath.Join(t.TempDir(), "attempt")
	if err := os.Mkdir(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	a := newAttempt(k, &engine.Launch{Identity: engine.Identity{UniID: "u1", Dir: dir}})
	if err := a.prepare(); err != nil {
		t.Fatal(err)
	}
	a.file.Close()
	if a.file, err = os.Open(filepath.Join(dir, wire.StatusFile)); err != nil {
		t.Fatal(err)
	}
	a.rec.Exit = 3
	k.links[new(wire.Link)] = true // somebody waits for the end
	e := a.finish()
	if e.ExitCode != 3 || !strings.Contains(e.Unsaved, filepath.Join(dir, wire.StatusFile)) {
		t.Errorf("got %+v, want exit 3 and the record that could not be written", e)
	}
	k.mu.Lock()
	stays := k.outlasts
	k.mu.Unlock()
	if stays != 1 {
		t.Error("the keeper did not stay for the record")
	}
}
