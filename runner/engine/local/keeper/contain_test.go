package keeper

import (
	"testing"

	"gpurun/runner/engine"
)

// If an attempt triggers a bug in the keeper, only that attempt's status is lost.
func TestPanicAffectsOnlyItsAttempt(t *testing.T) {
	k, err := newKeeper()
	if err != nil {
		t.Fatal(err)
	}
	a := newAttempt(nil, &engine.Launch{Identity: engine.Identity{UniID: "u", Dir: t.TempDir()}})
	if got := k.live(a); got == nil || !got.Lost || got.Void || got.ExitCode != -1 {
		t.Errorf("got %+v, want lost", got)
	}
	if contained("nothing", func() {}) != true {
		t.Error("a success is reported as a failure")
	}
}
