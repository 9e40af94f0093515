package cli

import (
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"al.essio.dev/pkg/shellescape"

	"gpurun/jobspec"
	"gpurun/runner"
	"gpurun/state"
	"gpurun/state/disk"
	"gpurun/state/host"
)

// A reader finds batches, and reads their job files and ledgers.
type reader struct {
	stateDir string            // --state-dir
	start    func(f func())    // starts a goroutine
	note     func(text string) // tells the user what was assumed
	reading  func(path string) // called before a file that decides what the jobs are is read; may be nil
}

// in returns a reader of batches whose state is in another folder.
func (r *reader) in(stateDir string, reading func(path string)) *reader {
	return &reader{stateDir, r.start, r.note, reading}
}

// A batchRef is the batch that a command like status or stop is about: one job file,
// or those that one live run runs together.
type batchRef struct {
	*reader
	file string   // its job file, as displayed
	real string   // absolute, links resolved
	dir  string   // its folder of state
	more []string // real paths of the other files of a live run

	alive  bool        // whether a run holds the lock
	runner disk.Runner // that run
	doubt  error       // why it is unknown whether a run is alive

	which     string     // --run
	run, over state.Fact // the run that is shown, and its end; without a Kind if there is none
	past      bool       // it is not the last one

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
func (r *reader) find(file string, p purpose) ([]*batchRef, error) {
	if file != "" {
		ref, err := r.batchOf(file)
		return []*batchRef{ref}, err
	}
	batches := disk.Batches(".", r.stateDir)
	nearby := len(batches) == 0
	if nearby {
		batches = disk.Near(".", r.stateDir)
		f := &failure{code: exitUsage, text: "no batch has run in this folder", hint: "name its job file with --file FILE"}
		if len(batches) > 0 && p == toChange {
			f.hint = "name its job file: --file " + shown(batches[0].File)
		}
		if len(batches) == 0 || p == toChange {
			return nil, f
		}
	}
	refs, err := r.liveOf(batches)
	if err == nil && len(refs) == 0 {
		var last *batchRef
		last, err = r.batchOf(batches[0].File)
		refs = append(refs, last)
	}
	switch {
	case err != nil:
		return nil, err
	case nearby:
		r.note("no batch has run in this folder; showing " + namesOf(refs))
	case p == toChange:
		return refs, onlyOne(refs, "--file ")
	}
	return refs, nil
}

// findJobs returns the batches that a command means which shows jobs, and reads them. Jobs are
// looked for in the newest batch of this folder, then in the others.
func (r *reader) findJobs(file string, jobs []string) ([]*batchRef, error) {
	refs, err := r.find(file, toShow)
	if err != nil {
		return nil, err
	}
	for _, ref := range refs {
		if err := ref.read(); err != nil {
			return nil, err
		}
	}
	if len(jobs) == 0 {
		return refs, nil
	}
	for _, former := range []bool{false, true} {
		if file != "" || refs[0].has(jobs, former) {
			break
		}
		others := r.having(jobs, former)
		if len(others) == 1 {
			r.note(strings.Join(jobs, ", ") + " found in " + others[0].name())
			return others, nil
		}
		if len(others) > 1 {
			return nil, &failure{code: exitUsage, text: fmt.Sprintf("%d batches here have %s: %s", len(others), strings.Join(jobs, ", "), namesOf(others)), hint: "name one of them: --file " + others[0].file}
		}
	}
	return refs[:1], nil // if it has no such job, it says so
}

// having returns the batches of this folder that have all of some jobs.
func (r *reader) having(jobs []string, former bool) (found []*batchRef) {
	for _, b := range disk.Batches(".", r.stateDir) {
		ref, err := r.batchOf(b.File)
		if err == nil && !slices.ContainsFunc(found, func(r *batchRef) bool { return slices.Contains(r.more, ref.real) }) && ref.read() == nil && ref.has(jobs, former) {
			found = append(found, ref)
		}
	}
	return found
}

// has reports whether the batch has, or also with former ones had, all of some jobs.
func (ref *batchRef) has(jobs []string, former bool) bool {
	known := slices.Collect(maps.Keys(ref.jobNames()))
	if former {
		for rec := range ref.history.Records() {
			known = append(known, rec.Job)
		}
	}
	_, err := runner.MatchJobs(jobs, len(known), func(i int) string { return known[i] })
	return err == nil
}

// aJob returns a failure if a word that should be a file is a job of a batch in this folder.
func (r *reader) aJob(word string) error {
	if found := r.having([]string{word}, false); len(found) > 0 {
		return &failure{code: exitUsage, text: "\"" + word + "\"" + " is a job of " + found[0].name() + ", not a file", hint: "gpurun why " + shellescape.Quote(word)}
	}
	return nil
}

// onlyOne returns a failure if there are several batches; how names one of them.
func onlyOne(refs []*batchRef, how string) error {
	if len(refs) == 1 {
		return nil
	}
	return &failure{code: exitUsage, text: fmt.Sprintf("%d batches are running here: %s", len(refs), namesOf(refs)), hint: "name one of them: " + how + refs[0].file}
}

// liveOf returns the batches that are running; files of one run count once.
func (r *reader) liveOf(batches []disk.Batch) ([]*batchRef, error) {
	var refs []*batchRef
	for _, b := range batches {
		ref, err := r.batchOf(b.File)
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
	var names []string
	for _, ref := range refs {
		names = append(names, ref.name())
	}
	return strings.Join(names, " and ")
}

// name returns the job file, or those of one run, as displayed, with the -p values that are shown.
func (ref *batchRef) name() string {
	return strings.Join(ref.shownFiles(), ", ") + ref.params()
}

func (ref *batchRef) shownFiles() []string {
	files := []string{ref.file}
	for _, f := range ref.more {
		files = append(files, shown(f))
	}
	return files
}

// command returns what runs the batch with the values that are shown.
func (ref *batchRef) command() string {
	return "gpurun " + shellescape.QuoteCommand(ref.shownFiles()) + ref.params()
}

// params returns the -p values that are shown as they are given.
func (ref *batchRef) params() string {
	if ref.batch == nil {
		return ""
	}
	return paramFlags(ref.batch.Params)
}

// paramFlags returns " -p epochs=5 -p lr=0.1".
func paramFlags(params map[string]string) (flags string) {
	for _, name := range slices.Sorted(maps.Keys(params)) {
		flags += " -p " + shellescape.Quote(name+"="+params[name])
	}
	return flags
}

// files returns all job files of the batch.
func (ref *batchRef) files() []string { return append([]string{ref.real}, ref.more...) }

// batchOf returns the batch of one job file.
func (r *reader) batchOf(file string) (*batchRef, error) {
	real, err := disk.RealPath(file)
	if err != nil {
		return nil, &failure{code: exitUsage, text: err.Error(), err: err}
	}
	if err := r.reachable(real); err != nil {
		return nil, err
	}
	ref := &batchRef{file: shown(file), real: real, dir: disk.Folder(real, r.stateDir), reader: r}
	if !host.Exists(real) && !host.Exists(ref.dir) {
		if err := r.aJob(file); err != nil {
			return nil, err
		}
		return nil, &failure{code: exitUsage, text: ref.file + ": no such file, and no recorded run of one"}
	}
	ref.look()
	if !ref.alive || ref.runner.PID == 0 {
		return ref, nil
	}
	for _, b := range disk.Batches(filepath.Dir(real), r.stateDir) {
		other, err := disk.RealPath(b.File)
		if err != nil || other == real {
			continue
		}
		if r, alive, _ := disk.Running(other, r.stateDir); alive && r.PID == ref.runner.PID && r.Host == ref.runner.Host {
			ref.more = append(ref.more, other)
		}
	}
	return ref, nil
}

// look finds out whether a run is alive.
func (ref *batchRef) look() { ref.runner, ref.alive, ref.doubt = disk.Running(ref.real, ref.stateDir) }

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
func (ref *batchRef) read() error {
	if err := ref.recall(); err != nil {
		return err
	}
	if b, err := ref.loadAgain(ref.run.Params, ref.files()...); err == nil {
		ref.batch = b
	}
	return nil
}

// recall loads the ledgers, and takes the run that is shown: the last one, unless --run names
// another by its number in gpurun history or by its ID. Run 0 is none: the files' own values.
func (ref *batchRef) recall() (err error) {
	if ref.history, _, err = ref.readState(ref.files()); err != nil {
		return err
	}
	ref.after, ref.run, ref.over = nil, ref.history.LastRun(0), ref.history.LastOver(0)
	if ref.which == "" {
		return nil
	}
	var all state.Annals
	for i := range ref.files() {
		disk.FromStart(ref.folder(i)).Next(func(seq int64, f state.Fact) { all.Add(i, seq, f) })
	}
	all.Close()
	n, err := strconv.Atoi(ref.which)
	if err != nil {
		n = 1 + slices.IndexFunc(all.Runs, func(e *state.Episode) bool { return e.Run.RunID == ref.which })
	}
	if err != nil && n == 0 || n < 0 || n > len(all.Runs) {
		return &failure{code: exitUsage, text: "no such run: " + "\"" + ref.which + "\"", hint: fmt.Sprintf("gpurun history numbers the runs, 1 to %d; 0 is the job file's own values", len(all.Runs))}
	}
	if ref.past = n != len(all.Runs); n == 0 {
		ref.run, ref.over = state.Fact{}, state.Fact{}
	} else if ref.past {
		ref.run, ref.over = all.Runs[n-1].Run, all.Runs[n-1].Over
	}
	return nil
}
