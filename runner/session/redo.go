package session

import (
	"bufio"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"

	"golang.org/x/term"

	"gpurun/runner/batches"
	"gpurun/state/disk"
)

// confirm lists the successful jobs that would rerun although the user did not ask for that. If
// rerunning them is expensive, it asks for confirmation on a terminal, and a detached run refuses
// to start. It returns an error if jobs are still running under the file's old name.
func (r *Run) confirm() error {
	if err := r.NoneRunning(r.Batch, r.Runs, r.Abandon); err != nil {
		return err
	}
	text, fix, much := r.Reruns(r.Batch, r.State.History(), r.core)
	if text != "" {
		r.Warn(text)
		r.Hint(fix)
	}
	if !much {
		return nil
	}
	if r.Detached != nil && !r.Yes {
		return &batches.Failure{Code: batches.ExitFailed, Text: "nothing was started: with -d, gpurun cannot ask for confirmation", Hint: "pass -y to confirm"}
	}
	if r.Yes || !r.OutTTY || !term.IsTerminal(int(os.Stdin.Fd())) {
		return nil
	}
	fmt.Fprint(r.Out, "rerun them? [y/N] ")
	answer, _ := bufio.NewReader(os.Stdin).ReadString('\n')
	switch strings.ToLower(strings.TrimSpace(answer)) {
	case "y", "yes":
		return nil
	}
	return &batches.Failure{Code: batches.ExitFailed, Text: "nothing was started", Hint: "pass -y to confirm"}
}

// noStrayKeeper refuses to start while stray jobs are running. Stray jobs are those of an earlier
// run of the same job file, if that run's state folder was removed or differs from this run's. If
// this run's state folder is a copy, the running jobs of the original are stray, too.
func (r *Run) noStrayKeeper() error {
	for i, f := range r.Batch.Files {
		dir := r.State.Dir(i)
		linked := func(d string) bool { // to a hard link of f, which is rare; a folder of another batch may be on a dead server
			this, err := os.Stat(f.Real)
			if err != nil || this.Sys().(*syscall.Stat_t).Nlink == 1 {
				return false
			}
			other, err := os.Stat(filepath.Join(filepath.Dir(filepath.Dir(d)), filepath.Base(d)))
			return err == nil && os.SameFile(this, other)
		}
		pid, at := batches.Engines["local"].Stray(dir, func(d string) bool {
			return d == disk.Folder(f.Real, "") || filepath.Base(d) == filepath.Base(disk.Folder(f.Real, d)) || linked(d)
		})
		if pid != 0 {
			where, fix := "but "+dir+" was removed", "wait for them"
			if at != dir {
				where, fix = "with their state in "+at, "use the job file or --state-dir of that run, wait for them"
			}
			return &batches.Failure{Code: batches.ExitState, Text: fmt.Sprintf("jobs of an earlier run of %s still run under process %d, %s", f.Path, pid, where),
				Hint: fmt.Sprintf("%s or kill them (pstree -p %d lists them), then try again", fix, pid)}
		}
	}
	return batches.NoCopy(r.State)
}
