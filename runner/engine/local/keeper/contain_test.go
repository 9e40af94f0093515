package keeper

import (
	"testing"

	"gpurun/runner/engine"
)

// A bug that one attempt hits in the keeper costs the attempt's status, nothing else.
func TestBugInOneAttempt(t *testing.T) {
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
