package cli

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"gpurun/jobspec"
	"gpurun/state"
	"gpurun/state/disk"
)

// A batchRef is the batch that a command beside a run is about: one job file, or
// those that one live run has taken together.
type batchRef struct {
	file string   // its job file, as it is shown
	real string   // absolute, links resolved
	dir  string   // its folder of state
	more []string // real paths of the other files of a live run

	alive  bool        // a run holds the lock
	runner disk.Runner // who
	doubt  error       // why nobody can tell whether a run is alive

	batch   *jobspec.Batch // nil when the file cannot be read any more
	history *state.History
}

// Which batches a command may mean without a job file.
type purpose bool

const (
	toShow   purpose = false // each live batch of this folder
	toChange purpose = true  // one batch, and no guess
)

// find names the batches that a command means: the one of the job file, if that
// is given; else the live ones of this folder; else the one that ran last here.
// A command that changes something means exactly one.
func (a *app) find(file string, p purpose) ([]*batchRef, error) {
	if file != "" {
		ref, err := a.batchOf(file)
		if err != nil {
			return nil, err
		}
		return []*batchRef{ref}, nil
	}
	batches := disk.Batches(".", a.global.StateDir)
	if len(batches) == 0 {
		return a.near(p)
	}
	refs, err := a.liveOf(batches)
	switch {
	case err != nil:
		return nil, err
	case len(refs) == 0:
		ref, err := a.batchOf(batches[0].File)
		return []*batchRef{ref}, err
	case len(refs) > 1 && p == toChange:
		return nil, &failure{code: exitUsage, text: fmt.Sprintf("%d batches are running here: ", len(refs)) + names(refs), hint: "name one of them: --file " + refs[0].file}
	}
	return refs, nil
}

// liveOf are the batches that run now. Files that one run has taken together are one.
func (a *app) liveOf(batches []disk.Batch) ([]*batchRef, error) {
	var refs []*batchRef
	for _, b := range batches {
		ref, err := a.batchOf(b.File)
		if err != nil {
			return nil, err
		}
		if ref.alive && !slices.ContainsFunc(refs, func(r *batchRef) bool { return slices.Contains(r.more, ref.real) }) {
			refs = append(refs, ref)
		}
	}
	return refs, nil
}

// near is what a command means in a folder where nothing has run: a batch that
// ran last in a folder near it can be shown, and that is said; nothing is changed there.
func (a *app) near(p purpose) ([]*batchRef, error) {
	near := disk.Near(".", a.global.StateDir)
	f := &failure{code: exitUsage, text: "no batch has run in this folder", hint: "name its job file with --file FILE"}
	if len(near) == 0 {
		return nil, f
	}
	if p == toChange {
		f.hint = "name its job file: --file " + shown(near[0].File)
		return nil, f
	}
	refs, err := a.liveOf(near)
	if err == nil && len(refs) == 0 {
		var ref *batchRef
		ref, err = a.batchOf(near[0].File)
		refs = []*batchRef{ref}
	}
	if err == nil {
		a.say("note", "no batch has run in this folder; this is "+names(refs))
	}
	return refs, err
}

// names lists batches by their job files.
func names(refs []*batchRef) string {
	var all []string
	for _, r := range refs {
		all = append(all, r.name())
	}
	return strings.Join(all, " and ")
}

// name is the job file, or those of one run, as they are shown.
func (r *batchRef) name() string {
	all := []string{r.file}
	for _, m := range r.more {
		all = append(all, shown(m))
	}
	return strings.Join(all, ", ")
}

// files are all job files of the batch.
func (r *batchRef) files() []string { return append([]string{r.real}, r.more...) }

// batchOf is the batch of one job file.
func (a *app) batchOf(file string) (*batchRef, error) {
	real, err := realPath(file)
	if err != nil {
		return nil, &failure{code: exitUsage, text: err.Error(), err: err}
	}
	ref := &batchRef{file: shown(file), real: real, dir: disk.Folder(real, a.global.StateDir)}
	if !exists(real) && !exists(ref.dir) {
		return nil, &failure{code: exitUsage, text: ref.file + ": no such file, and no state of one"}
	}
	ref.runner, ref.alive, ref.doubt = disk.Running(real, a.global.StateDir)
	if !ref.alive || ref.runner.PID == 0 {
		return ref, nil
	}
	for _, b := range disk.Batches(filepath.Dir(real), a.global.StateDir) {
		other, err := realPath(b.File)
		if err != nil || other == real {
			continue
		}
		if r, alive, _ := disk.Running(other, a.global.StateDir); alive && r.PID == ref.runner.PID && r.Host == ref.runner.Host {
			ref.more = append(ref.more, other)
		}
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
	if rel, err := filepath.Rel(wd, path); err == nil && (filepath.IsLocal(rel) || len(rel) < len(path)) {
		return rel
	}
	return path
}

// read loads the job files and the ledgers. A file that has errors by now still
// has a ledger.
func (r *batchRef) read(a *app) error {
	if b, ps := jobspec.Load(r.files(), a.options(&batchFlags{})); len(ps) == 0 {
		r.batch = b
	}
	var err error
	r.history, _, err = a.readState(r.files())
	return err
}
