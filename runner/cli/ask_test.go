package cli

import (
	"errors"
	"testing"

	"gpurun/runner/control"
	"gpurun/state/disk"
)

// A run on a host that shares the folder cannot be asked from here.
func TestRunOnAnotherHost(t *testing.T) {
	r := &batchRef{dir: t.TempDir(), alive: true, runner: disk.Runner{PID: 7, Host: "gpu01", UID: -1}}
	_, err := r.ask(control.Request{Op: control.OpStop})
	var silent *failure
	if !errors.As(err, &silent) || silent.text != "it is process 7 on gpu01" || silent.hint != "run this command on gpu01" {
		t.Errorf("got %v", err)
	}
}
