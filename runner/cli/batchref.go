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

// A batchRef is the batch that a command like status or stop is about: one job file,
// or those that one live run runs together.
type batchRef struct {
	file string   // its job file, as displayed
	real string   // absolute, links resolved
	dir  string   // its folder of state
	more []string // real paths of the other files of a live run

	alive  bool        // whether a run holds the lock
	runner disk.Runner // that run
	doubt  error       // why it is unknown whether a run is alive

	batch   *jobspec.Batch // nil if the file can no longer be read
	history *state.History
}

// A purpose decides which batches a command without a job file may mean.
type purpose bool

const (
	toShow   purpose = false // every live batch of this folder
	toChange purpose = true  // exactly one batch; never guess
)

// find returns the batches that a command means: that of the job file if one is
// given, else the live ones of this folder, else the one that ran last here. For a
// command that changes something it is exactly one.
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

// liveOf returns the batches that are running; files of one run count once.
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

// near handles a folder where nothing has run: it shows the batch that ran last in a
// nearby folder, with a note, but never changes one.
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
		a.say("note", "no batch has run in this folder; showing "+names(refs))
	}
	return refs, err
}

// names joins the batches' job files.
func names(refs []*batchRef) string {
	var all []string
	for _, r := range refs {
		all = append(all, r.name())
	}
	return strings.Join(all, " and ")
}

// name returns the job file, or those of one run, as displayed.
func (r *batchRef) name() string {
	all := []string{r.file}
	for _, m := range r.more {
		all = append(all, shown(m))
	}
	return strings.Join(all, ", ")
}

// files returns all job files of the batch.
func (r *batchRef) files() []string { return append([]string{r.real}, r.more...) }

// batchOf returns the batch of one job file.
func (a *app) batchOf(file string) (*batchRef, error) {
	real, err := realPath(file)
	if err != nil {
		return nil, &failure{code: exitUsage, text: err.Error(), err: err}
	}
	ref := &batchRef{file: shown(file), real: real, dir: disk.Folder(real, a.global.StateDir)}
	if !exists(real) && !exists(ref.dir) {
		return nil, &failure{code: exitUsage, text: ref.file + ": no such file, and no recorded run of one"}
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

// realPath resolves links. A deleted job file is not an error: its ledger can still
// be read.
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

// shown returns a path as a user would type it from here.
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

// read loads the job files and the ledgers. A file that now has errors still has a
// ledger.
func (r *batchRef) read(a *app) error {
	if b, err := jobspec.Load(r.files(), a.options(&batchFlags{})); err == nil {
		r.batch = b
	}
	var err error
	r.history, _, err = a.readState(r.files())
	return err
}
