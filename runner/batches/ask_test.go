package batches

import (
	"errors"
	"testing"

	"gpurun/runner/control"
	"gpurun/state/disk"
)

// A run on another host cannot be reached, even if the hosts share its folder.
func TestAskNamesHostOfRemoteRun(t *testing.T) {
	r := &Ref{Dir: t.TempDir(), Alive: true, Runner: disk.Runner{PID: 7, Host: "gpu01", UID: -1}}
	_, err := r.Ask(control.Request{Op: control.OpStop})
	var silent *Failure
	if !errors.As(err, &silent) || silent.Text != "it is process 7 on gpu01" || silent.Hint != "run this command on gpu01" {
		t.Errorf("got %v", err)
	}
}
