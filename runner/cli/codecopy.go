package cli

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"time"

	"gpurun/gpu"
	"gpurun/jobspec"
	"gpurun/runner/codecopy"
	"gpurun/runner/engine/procs"
	"gpurun/runner/files"
	"gpurun/state"
)

// copyCode makes the copies of the code that the jobs of a batch run in, by file, or keeps those
// that are there if the code has not changed since; nil if they run where it is. It says what
// was copied.
func (r *run) copyCode(b *jobspec.Batch) (trees []*codecopy.Tree, said []string, err error) {
	if !b.Settings.Snapshot {
		r.code = nil // the run removes them once nobody is in them
		return nil, nil, nil
	}
	trees = make([]*codecopy.Tree, len(b.Files))
	for i, f := range b.Files {
		o := codecopy.Options{WorkDir: f.WorkDir, State: filepath.Dir(r.state.Dir(i)), Folder: r.state.Copies(i), Outputs: outputsOf(b, i), Now: time.Now()}
		if i < len(r.code) {
			o.Old = r.code[i]
		}
		t, err := codecopy.Take(context.Background(), o)
		if err != nil {
			return nil, nil, notCopied(f.Path, err)
		}
		if t != o.Old {
			said = append(said, copied(t))
		}
		trees[i] = t
	}
	r.code = trees
	return trees, said, nil
}

// prepareCopies makes the copies that the run begins with, in place of those of earlier runs.
func (r *run) prepareCopies() error {
	r.removeCopies()
	_, said, err := r.copyCode(r.batch)
	for _, text := range said {
		fmt.Fprintln(r.out, text)
	}
	return err
}

// copied says what was copied, from where and to where.
func copied(t *codecopy.Tree) string {
	from := t.Root
	if t.Commit != "" {
		from += fmt.Sprintf(" at commit %.10s", t.Commit)
		if t.Dirty {
			from += " with changes"
		}
	}
	return fmt.Sprintf("jobs run in a copy of the code: %s (%s) of %s, in %s", count(t.Files, "file"), gpu.Bytes(t.Bytes).Round(), from, shown(t.Home()))
}

// notCopied is a failure that says why the code was not copied, and what to do.
func notCopied(file string, err error) error {
	f := &failure{code: exitState, text: file + ": the code could not be copied (snapshot: true): " + err.Error(), err: err, hint: "mend that, or run without: --no-snapshot"}
	if much := (*codecopy.TooMuch)(nil); errors.As(err, &much) {
		f.code = exitUsage
		f.hint = "have git ignore it (.gitignore, in a git repository): what git ignores is linked, not copied; or run without: --no-snapshot"
	}
	return f
}

// outputsOf returns the paths that the jobs of a file write, and the folders that these are in.
func outputsOf(b *jobspec.Batch, file int) []string {
	seen := map[string]bool{}
	for id := range b.Jobs {
		if j := &b.Jobs[id]; j.File == file && j.Spec.HasOutputs {
			got, err := b.Paths(j, jobspec.Runtime{Attempt: 1})
			if err != nil {
				continue
			}
			for _, p := range got.Outputs {
				seen[p], seen[files.FolderOf(p)] = true, true
			}
		}
	}
	all := make([]string, 0, len(seen))
	for path := range seen {
		if real, err := filepath.EvalSymlinks(path); err == nil {
			all = append(all, real)
		}
	}
	slices.Sort(all)
	return all
}

// removeCopies removes the copies of the code that earlier runs have made, and no attempt or
// process is in.
func (r *run) removeCopies() {
	var open []state.Fact
	for _, at := range r.state.History().Attempts() {
		open = append(open, at.Start)
	}
	for i := range r.batch.Files {
		used := func(dir string) bool {
			return slices.ContainsFunc(open, func(f state.Fact) bool { return filepath.Dir(f.Snapshot) == dir }) || procs.In(dir)
		}
		for _, note := range codecopy.Remove(r.state.Copies(i), used, time.Now()) {
			r.warn(note)
		}
	}
}
