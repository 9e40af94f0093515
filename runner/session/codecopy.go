package session

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"time"

	"gpurun/gpu"
	"gpurun/jobspec"
	"gpurun/runner/batches"
	"gpurun/runner/codecopy"
	"gpurun/runner/files"
	"gpurun/state"
	"gpurun/state/disk"
)

// copyCode copies the code of a batch's jobs. It returns one copy for each job file, or nil if jobs
// run in the original folders. said describes each copy.
func (r *Run) copyCode(b *jobspec.Batch) (trees []*codecopy.Tree, said []string, err error) {
	if !b.Settings.Snapshot {
		r.code = nil // the runner removes earlier copies once no process uses them
		return nil, nil, nil
	}
	commits := commitsOf(b)
	for i, f := range b.Files {
		o := codecopy.Options{WorkDir: f.WorkDir, State: filepath.Dir(r.State.Dir(i)), Folder: r.copies(i)[0], Name: time.Now().Format("20060102-150405"), Outputs: outputsOf(b, i)}
		at := ""
		if c := commits[i]; c.Commit != "" {
			o.Name += fmt.Sprintf("-%.8s", c.Commit)
			at = fmt.Sprintf(" at commit %.10s", c.Commit)
			if c.Dirty {
				o.Name += "+"
				at += " with changes"
			}
		}
		t, err := codecopy.Take(context.Background(), o)
		if err != nil {
			return nil, nil, copyFailure(f.Path, err)
		}
		disk.KeepOutOfGit(filepath.Dir(filepath.Dir(o.Folder)))
		trees = append(trees, t)
		said = append(said, fmt.Sprintf("jobs run in a copy of the code, %s: %s (%s) of %s%s; new files outside data and output folders move to the work dir once no job uses the copy",
			batches.Shown(t.Home()), state.Count(t.Files, "file"), gpu.Bytes(t.Bytes).Round(), t.Root, at))
	}
	r.code = trees
	return trees, said, nil
}

// prepareCopies removes the copies of earlier runs and makes those of this run.
func (r *Run) prepareCopies() error {
	r.removeCopies()
	_, said, err := r.copyCode(r.Batch)
	for _, line := range said {
		fmt.Fprintln(r.Out, line)
	}
	return err
}

func copyFailure(file string, err error) error {
	f := &batches.Failure{Code: batches.ExitState, Text: file + ": cannot copy the code (snapshot: true): " + err.Error(), Err: err, Hint: "fix it, or run without a copy: --no-snapshot"}
	if much := (*codecopy.TooLarge)(nil); errors.As(err, &much) {
		f.Code = batches.ExitUsage
		f.Hint = "add large files to .gitignore (gpurun links ignored files instead of copying them), or run without a copy: --no-snapshot"
	}
	return f
}

// outputsOf maps the output paths of a file's jobs to true, and the folders of these paths to
// false.
func outputsOf(b *jobspec.Batch, file int) map[string]bool {
	all := map[string]bool{}
	add := func(path string, declared bool) {
		if real, err := filepath.EvalSymlinks(path); err == nil {
			all[real] = all[real] || declared
		}
	}
	for id := range b.Jobs {
		if j := &b.Jobs[id]; j.File == file && j.Spec.HasOutputs {
			got, _ := b.Paths(j, jobspec.Runtime{Attempt: 1})
			for _, p := range got.Outputs {
				add(p, true)
				add(files.FolderOf(p), false)
			}
		}
	}
	return all
}

// removeCopies removes the code copies of earlier runs. It keeps a copy that was used by an attempt
// without a recorded end. If that attempt has ended, the copy's output files are moved to the work
// dir, so that the next copy includes them.
func (r *Run) removeCopies() {
	used, look := map[string]bool{}, batches.Looker()
	for _, at := range r.State.History().Attempts() {
		dir := filepath.Dir(at.Start.Snapshot)
		f := look(r.State.AttemptDir(at.Ledger, at.Start.UniID), at.Start.UniID)
		used[dir] = used[dir] || f.PID != 0 || f.Ended == nil && at.Start.Engine != ""
	}
	for i := range r.Batch.Files {
		for _, folder := range r.copies(i) {
			r.Warn(codecopy.Remove(folder, used)...)
		}
	}
}

func (r *Run) copies(file int) []string {
	dir := r.Batch.Files[file].WorkDir
	if real, err := filepath.EvalSymlinks(dir); err == nil {
		dir = real
	}
	return r.State.Copies(file, dir)
}
