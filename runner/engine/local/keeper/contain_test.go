package keeper

import (
	"testing"

	"gpurun/runner/engine"
)

// If the keeper panics while it handles an attempt, only that attempt is lost.
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
		t.Error("contained reports a panic, but there was none")
	}
}
