package session

import (
	"fmt"
	"path/filepath"

	"gpurun/runner/batches"
	"gpurun/state/disk"
)

// noStrayKeeper refuses to start while stray jobs run: their state folder was removed and they have
// no runner, it is another one of the same job file, or it was copied and they belong to the
// original.
func (r *Run) noStrayKeeper() error {
	for i, f := range r.Batch.Files {
		dir := r.State.Dir(i)
		pid, at := batches.Engines["local"].Stray(dir, func(d string) bool {
			return d == disk.Folder(f.Real, "") || filepath.Base(d) == filepath.Base(disk.Folder(f.Real, d))
		})
		if pid != 0 {
			where, fix := "but "+dir+" was removed", "wait for them"
			if at != dir {
				where, fix = "with their state in "+at, "use that folder (--state-dir), wait for them"
			}
			return &batches.Failure{Code: batches.ExitState, Text: fmt.Sprintf("jobs of an earlier run of %s still run under process %d, %s", f.Path, pid, where),
				Hint: fmt.Sprintf("%s or kill them (pstree -p %d lists them), then try again", fix, pid)}
		}
	}
	return batches.NoCopy(r.State)
}
