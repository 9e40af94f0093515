package local

import (
	"testing"

	"gpurun/runner/engine"
)

// A bug that one attempt meets in the keeper costs its status, and nothing else.
func TestBugInOneAttempt(t *testing.T) {
	k, err := newKeeper(false)
	if err != nil {
		t.Fatal(err)
	}
	defer k.reaper.stop()
	a := newAttempt(nil, &engine.Launch{UniID: "u", Dir: t.TempDir()}, nil)
	if got := k.live(a); got == nil || !got.Lost || got.Void || got.ExitCode != -1 {
		t.Errorf("got %+v, want lost", got)
	}
	if contained("nothing", func() {}) != true {
		t.Error("what went well is told as a failure")
	}
}
