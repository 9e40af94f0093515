package cli

import (
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
	file     string   // its job file, as displayed
	real     string   // absolute, links resolved
	dir      string   // its folder of state
	stateDir string   // --state-dir
	more     []string // real paths of the other files of a live run

	alive  bool        // whether a run holds the lock
	runner disk.Runner // that run
	doubt  error       // why it is unknown whether a run is alive

	batch   *jobspec.Batch // nil if the file can no longer be read
	history *state.History
	after   *aftermath // what settle found out; nil before
}

// A purpose decides which batches a command without a job file may mean.
type purpose bool

const (
	toShow   purpose = false // every live batch of this folder
	toChange purpose = true  // exactly one batch; never guess
)

// find returns the batches that a command means: that of the job file if one is
// given, else the live ones of this folder, else the one that ran last here. Where nothing
// has run, a nearby batch is shown, with a note, but never changed.
func (a *app) find(file string, p purpose) ([]*batchRef, error) {
	if file != "" {
		ref, err := a.batchOf(file)
		return []*batchRef{ref}, err
	}
	batches := disk.Batches(".", a.global.StateDir)
	nearby := len(batches) == 0
	if nearby {
		batches = disk.Near(".", a.global.StateDir)
		f := &failure{code: exitUsage, text: "no batch has run in this folder", hint: "name its job file with --file FILE"}
		if len(batches) > 0 && p == toChange {
			f.hint = "name its job file: --file " + shown(batches[0].File)
		}
		if len(batches) == 0 || p == toChange {
			return nil, f
		}
	}
	refs, err := a.liveOf(batches)
	if err == nil && len(refs) == 0 {
		var last *batchRef
		last, err = a.batchOf(batches[0].File)
		refs = append(refs, last)
	}
	switch {
	case err != nil:
		return nil, err
	case nearby:
		a.say("note", "no batch has run in this folder; showing "+namesOf(refs))
	case p == toChange:
		return refs, onlyOne(refs, "--file ")
	}
	return refs, nil
}

// onlyOne returns a failure if there are several batches; how names one of them.
func onlyOne(refs []*batchRef, how string) error {
	if len(refs) == 1 {
		return nil
	}
	return &failure{code: exitUsage, text: fmt.Sprintf("%d batches are running here: %s", len(refs), namesOf(refs)), hint: "name one of them: " + how + refs[0].file}
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

// namesOf joins the batches' job files.
func namesOf(refs []*batchRef) string {
	return strings.Join(names(len(refs), func(i int) string { return refs[i].name() }), " and ")
}

// name returns the job file, or those of one run, as displayed.
func (r *batchRef) name() string {
	more := names(len(r.more), func(i int) string { return shown(r.more[i]) })
	return strings.Join(append([]string{r.file}, more...), ", ")
}

// files returns all job files of the batch.
func (r *batchRef) files() []string { return append([]string{r.real}, r.more...) }

// batchOf returns the batch of one job file.
func (a *app) batchOf(file string) (*batchRef, error) {
	real, err := disk.RealPath(file)
	if err != nil {
		return nil, &failure{code: exitUsage, text: err.Error(), err: err}
	}
	if err := a.reachable(real); err != nil {
		return nil, err
	}
	ref := &batchRef{file: shown(file), real: real, dir: disk.Folder(real, a.global.StateDir), stateDir: a.global.StateDir}
	if !exists(real) && !exists(ref.dir) {
		return nil, &failure{code: exitUsage, text: ref.file + ": no such file, and no recorded run of one"}
	}
	ref.runner, ref.alive, ref.doubt = disk.Running(real, a.global.StateDir)
	if !ref.alive || ref.runner.PID == 0 {
		return ref, nil
	}
	for _, b := range disk.Batches(filepath.Dir(real), a.global.StateDir) {
		other, err := disk.RealPath(b.File)
		if err != nil || other == real {
			continue
		}
		if r, alive, _ := disk.Running(other, a.global.StateDir); alive && r.PID == ref.runner.PID && r.Host == ref.runner.Host {
			ref.more = append(ref.more, other)
		}
	}
	return ref, nil
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
	var err error
	if r.history, _, err = a.readState(r.files()); err != nil {
		return err
	}
	r.after = nil
	if b, err := a.loadAgain(r.history.LastRun(0).Params, r.files()...); err == nil {
		r.batch = b
	}
	return nil
}
