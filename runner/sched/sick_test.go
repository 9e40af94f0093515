package sched

import (
	"testing"

	"gpurun/gpu"
	"gpurun/jobspec"
	"gpurun/state"
)

// Which ends can be the fault of the GPU.
func TestDied(t *testing.T) {
	for _, row := range []struct {
		name string
		end  Ended
		want bool
	}{
		{"success", Ended{}, false},
		{"exit 1", Ended{ExitCode: 1}, false},
		{"a CUDA error", Ended{ExitCode: 1, Cause: DeviceFault}, true},
		{"out of GPU memory", Ended{ExitCode: 1, Cause: GPUMemory}, false},
		{"out of host memory", Ended{ExitCode: -1, Signal: "SIGKILL", Cause: HostMemory}, false},
		{"a crash", Ended{ExitCode: -1, Signal: "SIGSEGV"}, true},
		{"a crash, as a shell reports it", Ended{ExitCode: 139}, true},
		{"an abort, as a shell reports it", Ended{ExitCode: 134}, true},
		{"killed", Ended{ExitCode: -1, Signal: "SIGKILL"}, true},
		{"asked to end", Ended{ExitCode: -1, Signal: "SIGTERM"}, false},
		{"interrupted", Ended{ExitCode: -1, Signal: "SIGINT"}, false},
		{"command not found", Ended{ExitCode: 127}, false},
		{"lost", Ended{ExitCode: -1, Lost: true}, true},
		{"never ran", Ended{ExitCode: -1, Lost: true, Void: true}, false},
		{"timeout", Ended{ExitCode: -1, Signal: "SIGKILL", Why: state.WhyTimeout}, false},
		{"stopped", Ended{ExitCode: -1, Signal: "SIGKILL", Why: state.WhyCancelled}, false},
		{"an output is missing", Ended{Failed: "output x missing", Cause: DeviceFault}, true},
		{"left running", Ended{LeftRunning: "python 7"}, false},
	} {
		w := newWorld(t)
		w.gpus(1, 24*gpu.GiB)
		w.open()
		a := &attempt{uniID: "a.1", grant: gpu.Grant{UUIDs: []gpu.UUID{uuid(0)}}}
		f := a.end(row.end, w.now)
		if got := w.core.died(a, f, row.end); got != row.want {
			t.Errorf("%s: got %v, want %v", row.name, got, row.want)
		}
		a.adopted = true
		if w.core.died(a, f, row.end) {
			t.Errorf("%s: counts for an attempt of an earlier run", row.name)
		}
	}
}

// A job whose last failure spent no retry would have been tried again: the run left it
// pending, and so does the ledger.
func TestUnchargedIsPending(t *testing.T) {
	w := newWorld(t)
	w.job("a", "true", jobspec.Spec{}, "")
	for uncharged, want := range map[string]state.Phase{"": state.Failed, "GPU 0 may be at fault": state.Pending} {
		h := state.NewHistory()
		h.Ran(0, state.Fact{Kind: state.KindRun, Time: w.now.Wall}, state.Fact{})
		h.Apply(0, state.Fact{Kind: state.KindEnd, Time: w.now.Wall, Job: "a", Key: w.b.Jobs[0].Key.String(), State: state.Failed, Uncharged: uncharged})
		if got := Phases(w.b, h)[0]; got != want {
			t.Errorf("uncharged %q: %s, want %s", uncharged, got, want)
		}
	}
}
