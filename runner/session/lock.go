package session

import (
	"fmt"

	"gpurun/runner/batches"
)

// noStrayKeeper refuses to start while stray jobs run: their state folder was removed and they have
// no runner, or it was copied and they belong to the original.
func (r *Run) noStrayKeeper() error {
	for i := range r.Batch.Files {
		if pid := batches.Engines["local"].Stray(r.State.Dir(i)); pid != 0 {
			return &batches.Failure{Code: batches.ExitState, Text: fmt.Sprintf("jobs of an earlier run of %s still run under process %d, but %s was removed",
				r.Batch.Files[i].Path, pid, r.State.Dir(i)), Hint: fmt.Sprintf("wait for them or kill them (pstree -p %d lists them), then try again", pid)}
		}
	}
	return batches.NoCopy(r.State)
}
