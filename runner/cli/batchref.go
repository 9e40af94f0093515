package cli

import (
	"errors"
	"os"
	"path/filepath"

	"gpurun/jobspec"
	"gpurun/state"
	"gpurun/state/disk"
)

// A batchRef is the batch that a command beside a run is about.
type batchRef struct {
	file string // its job file, as it is shown
	real string // absolute, links resolved
	dir  string // its folder of state

	batch   *jobspec.Batch // nil when the file cannot be read any more
	history *state.History
}

// find names the batch: the one that --file says, or the one that was used last here.
func (a *app) find(f *batchFlag) (*batchRef, error) {
	file := f.File
	if file == "" {
		var err error
		if file, err = disk.NewestBatch(".", a.global.StateDir); err != nil {
			return nil, &failure{code: exitUsage, text: err.Error(), err: err}
		}
	}
	real, err := realPath(file)
	if err != nil {
		return nil, &failure{code: exitUsage, text: err.Error(), err: err}
	}
	ref := &batchRef{file: shown(file), real: real, dir: disk.Folder(real, a.global.StateDir)}
	if !exists(real) && !exists(ref.dir) {
		return nil, &failure{code: exitUsage, text: ref.file + ": there is no such file, nor state of one that was there"}
	}
	return ref, nil
}

// realPath resolves links; the ledger of a job file that has been deleted can
// still be looked at.
func realPath(path string) (string, error) {
	abs, err := filepath.Abs(path)
	if err != nil {
		return "", err
	}
	real, err := filepath.EvalSymlinks(abs)
	if errors.Is(err, os.ErrNotExist) {
		return abs, nil
	}
	return real, err
}

// shown is a path as a person would write it from here.
func shown(path string) string {
	wd, err := os.Getwd()
	if err != nil || !filepath.IsAbs(path) {
		return path
	}
	if rel, err := filepath.Rel(wd, path); err == nil && filepath.IsLocal(rel) {
		return rel
	}
	return path
}

// read loads the job file and the ledger. A file that has errors by now still
// has a ledger.
func (r *batchRef) read(a *app) error {
	if b, ps := jobspec.Load([]string{r.file}, a.options(&batchFlags{})); len(ps) == 0 {
		r.batch = b
	}
	var err error
	r.history, _, err = a.readState([]string{r.real})
	return err
}
