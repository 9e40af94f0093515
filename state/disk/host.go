package disk

import (
	"gpurun/state"
	"gpurun/state/host"
)

// Host returns a run fact that identifies this machine and PID namespace, the only
// place where its PIDs are valid.
func Host() state.Fact {
	return state.Fact{
		Kind: state.KindRun, Version: state.Version,
		MachineID: host.MachineID(), Host: host.Name(), BootID: host.BootID(), PIDNS: host.PIDNamespace(),
	}
}
