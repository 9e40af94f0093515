// Package batches finds, reads, queries, explains and measures a batch from outside its run.
//
// status asks the live run for data that the ledgers and job files lack. Jobs with the same status
// are sent as one group (runner/control/pack.go), because most jobs of a large batch wait for the
// same reason. If the run is not alive (its lock is free) or does not answer, status reads the
// ledger instead. The engine's Looker inspects each open attempt without changing anything,
// runner.Meanwhile converts the result to the end that the next run would record, and sched.Phases
// derives each job's state. A test compares those states with the ones in which the run left the
// jobs. plan uses the same code.
package batches

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
	"gpurun/runner/files"
	"gpurun/state"
	"gpurun/state/disk"
	"gpurun/state/host"
	"gpurun/state/redact"
)

// A Reader finds batches, and reads their job files and ledgers.
type Reader struct {
	StateDir string            // --state-dir
	Start    func(f func())    // starts a goroutine
	Note     func(text string) // prints an assumption that was made
	reading  func(path string) // called before reading a file that determines the jobs; may be nil
}

// In returns a reader for batches whose state is in another folder.
func (r *Reader) In(stateDir string, reading func(path string)) *Reader {
	return &Reader{stateDir, r.Start, r.Note, reading}
}

// A Ref is the batch that a command refers to: one job file, or the files of one live run.
type Ref struct {
	*Reader
	File string   // the job file, as displayed
	Real string   // absolute, symlinks resolved
	Dir  string   // the state folder
	More []string // real paths of the run's other files; if it has ended, only if File cannot be read without them

	Alive  bool        // a run holds the lock
	Runner disk.Runner // the live run, or one that was killed
	unsure error       // why it is unknown whether a run is alive

	Which     string     // --run
	run, over state.Fact // the run that is shown, and its end; without a Kind if there is none
	past      bool       // the run that is shown is not the last one

	Batch   *jobspec.Batch // nil if the file can no longer be read; see unread
	former  bool           // Batch comes from the ledgers, not the job files
	History *state.History
	after   *openAttempts // result of settle; nil before
}

// Find returns the batches that a command should show: the one of the given job file, or else the
// live ones of this folder, or else the one that ran last here. If there is none, it looks
// nearby and prints a note. It returns more than one batch only if alone is "". Otherwise, alone
// tells the user how to select one.
func (r *Reader) Find(file, alone string) ([]*Ref, error) {
	return r.find(file, alone, false)
}

// FindToChange returns the one batch that a command should change. It never guesses.
func (r *Reader) FindToChange(file string) (*Ref, error) {
	refs, err := r.find(file, "--file ", true)
	if err != nil {
		return nil, err
	}
	return refs[0], nil
}

func (r *Reader) find(file, alone string, change bool) ([]*Ref, error) {
	if file != "" {
		ref, err := r.Open(file)
		return []*Ref{ref}, err
	}
	batches := disk.Batches(".", r.StateDir)
	nearby := len(batches) == 0
	if nearby {
		batches = disk.NearbyBatches(".", r.StateDir)
		f := &Failure{Code: ExitUsage, Text: "no batch in this folder", Hint: "name its job file with --file FILE"}
		if len(batches) > 0 && change {
			f.Hint = "name its job file: --file " + shellescape.Quote(Shown(batches[0].File))
		}
		if len(batches) == 0 || change {
			return nil, f
		}
	}
	refs, err := r.liveOf(batches)
	if err == nil && len(refs) == 0 {
		var last *Ref
		last, err = r.Open(batches[0].File)
		refs = append(refs, last)
	}
	if err != nil {
		return nil, err
	}
	if nearby {
		r.Note("no batch in this folder; showing " + namesOf(refs))
	}
	if alone != "" && len(refs) > 1 {
		return nil, &Failure{Code: ExitUsage, Text: fmt.Sprintf("%d batches are running in this folder: %s", len(refs), namesOf(refs)), Hint: "name one of them: " + alone + refs[0].File}
	}
	return refs, nil
}

// FindJobs returns the batches in which a command should show jobs, and reads them. It looks for
// the jobs in the newest batch of this folder, then in the others. For alone, see Find.
func (r *Reader) FindJobs(file string, jobs []string, alone string) ([]*Ref, error) {
	if len(jobs) > 0 {
		alone = ""
	}
	refs, err := r.Find(file, alone)
	if err != nil {
		return nil, err
	}
	for _, ref := range refs {
		if err := ref.Read(); err != nil {
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
			r.Note(strings.Join(jobs, ", ") + " found in " + others[0].Name())
			return others, nil
		}
		if len(others) > 1 {
			return nil, &Failure{Code: ExitUsage, Text: fmt.Sprintf("%d batches in this folder have %s named %s: %s", len(others), map[bool]string{true: "a job", false: "jobs"}[len(jobs) == 1], strings.Join(jobs, ", "), namesOf(others)), Hint: "name one of them: --file " + shellescape.Quote(others[0].File)}
		}
	}
	return refs[:1], nil // the caller reports a missing job
}

// having returns the batches of this folder that have all the given jobs.
func (r *Reader) having(jobs []string, former bool) (found []*Ref) {
	for _, b := range disk.Batches(".", r.StateDir) {
		ref, err := r.Open(b.File)
		if err == nil && !slices.ContainsFunc(found, func(r *Ref) bool { return slices.Contains(r.More, ref.Real) }) && ref.Read() == nil && ref.has(jobs, former) {
			found = append(found, ref)
		}
	}
	return found
}

// has reports whether the batch has all the given jobs, or, with former, has ever had them.
func (ref *Ref) has(jobs []string, former bool) bool {
	known := slices.Collect(maps.Keys(ref.JobNames()))
	if former {
		for rec := range ref.History.Records() {
			known = append(known, rec.Job)
		}
	}
	_, err := runner.MatchJobs(jobs, len(known), func(i int) string { return known[i] })
	return err == nil
}

// JobNamed returns a failure if a word given as a file is the name of a job in a batch of this
// folder.
func (r *Reader) JobNamed(word string) error {
	if found := r.having([]string{word}, false); len(found) > 0 {
		return &Failure{Code: ExitUsage, Text: "\"" + word + "\"" + " is a job of " + found[0].Name() + ", not a file", Hint: "gpurun why " + shellescape.Quote(word)}
	}
	return nil
}

// liveOf returns the live batches. Files of the same run are one batch.
func (r *Reader) liveOf(batches []disk.Batch) ([]*Ref, error) {
	var refs []*Ref
	for _, b := range batches {
		ref, err := r.Open(b.File)
		if err != nil {
			return nil, err
		}
		if ref.Alive && !slices.ContainsFunc(refs, func(r *Ref) bool { return slices.Contains(r.More, ref.Real) }) {
			refs = append(refs, ref)
		}
	}
	return refs, nil
}

func namesOf(refs []*Ref) string {
	var names []string
	for _, ref := range refs {
		names = append(names, ref.Name())
	}
	return strings.Join(names, " and ")
}

// Name returns the job files of the batch for display, with the -p values that are shown.
func (ref *Ref) Name() string {
	return strings.Join(ref.shownFiles(), ", ") + ref.Params()
}

func (ref *Ref) shownFiles() []string {
	files := []string{ref.File}
	for _, f := range ref.More {
		files = append(files, Shown(f))
	}
	return files
}

// Command returns the command that runs the batch with the -p values that are shown.
func (ref *Ref) Command() string {
	return "gpurun " + shellescape.QuoteCommand(ref.shownFiles()) + ref.Params()
}

// Params returns the -p values that are shown, as flags.
func (ref *Ref) Params() string {
	if ref.Batch == nil {
		return ""
	}
	return ParamFlags(ref.Batch.Params)
}

// ParamFlags formats -p values: " -p epochs=5 -p lr=0.1".
func ParamFlags(params map[string]string) (flags string) {
	for _, name := range slices.Sorted(maps.Keys(params)) {
		flags += " -p " + shellescape.Quote(name+"="+params[name])
	}
	return flags
}

// Files returns all job files of the batch.
func (ref *Ref) Files() []string { return append([]string{ref.Real}, ref.More...) }

// Open returns the batch of one job file.
func (r *Reader) Open(file string) (*Ref, error) {
	real, err := disk.RealPath(file)
	if err != nil {
		return nil, &Failure{Code: ExitUsage, Text: err.Error(), Err: err}
	}
	if err := r.Reachable(real); err != nil {
		return nil, err
	}
	ref := &Ref{File: Shown(file), Real: real, Dir: disk.Folder(real, r.StateDir), Reader: r}
	if !host.Exists(real) && !host.Exists(ref.Dir) {
		if err := r.JobNamed(file); err != nil {
			return nil, err
		}
		return nil, &Failure{Code: ExitUsage, Text: ref.File + ": no such file or recorded run"}
	}
	ref.Look()
	if !ref.Alive || ref.Runner.PID == 0 {
		return ref, nil
	}
	for _, b := range disk.Batches(filepath.Dir(real), r.StateDir) {
		other, err := disk.RealPath(b.File)
		if err != nil || other == real {
			continue
		}
		if r, alive, _ := disk.Running(other, r.StateDir); alive && r.PID == ref.Runner.PID && r.Host == ref.Runner.Host {
			ref.More = append(ref.More, other)
		}
	}
	return ref, nil
}

// Look determines whether a run is alive.
func (ref *Ref) Look() { ref.Runner, ref.Alive, ref.unsure = disk.Running(ref.Real, ref.StateDir) }

// Shown returns a path as a user would type it in the current folder.
func Shown(path string) string {
	wd, err := os.Getwd()
	if err != nil || !filepath.IsAbs(path) {
		return path
	}
	if rel, err := filepath.Rel(wd, path); err == nil && (filepath.IsLocal(rel) || len(rel) < len(path)) {
		return rel
	}
	return path
}

// Read loads the job files and the ledgers. A file with errors still has a ledger.
func (ref *Ref) Read() error {
	if err := ref.recall(); err != nil {
		return err
	}
	if b, err := ref.Reload(ref.run.Params, ref.Files()...); err == nil {
		ref.Batch, ref.former = b, false
	}
	return nil
}

// join adds the files that the last run also had, if the jobs of this file need theirs.
func (ref *Ref) join() {
	if len(ref.More) > 0 || len(ref.run.Files) == 0 {
		return
	}
	paths := []string{ref.Real}
	for _, rel := range ref.run.Files {
		paths = append(paths, filepath.Join(filepath.Dir(ref.Real), rel))
	}
	if _, err := ref.Reload(ref.run.Params, ref.Real); err == nil {
		return
	}
	if _, err := ref.Reload(ref.run.Params, paths...); err != nil {
		return
	}
	if history, _, err := ref.ReadHistory(paths); err == nil {
		ref.More, ref.History = paths[1:], history
	}
}

// recall loads the ledgers and selects the run that is shown: the last one, or the one that --run
// names by its number in gpurun history or its ID. Run 0 means no run, and shows the files' own
// values.
func (ref *Ref) recall() (err error) {
	if ref.History, _, err = ref.ReadHistory(ref.Files()); err != nil {
		return err
	}
	ref.after, ref.run, ref.over = nil, ref.History.LastRun(0), ref.History.LastOver(0)
	if ref.join(); ref.Which == "" {
		return nil
	}
	all := new(readLog).read(ref, openAttempts{})
	n, err := strconv.Atoi(ref.Which)
	if err != nil {
		n = 1 + slices.IndexFunc(all.Runs, func(e *state.PastRun) bool { return e.Run.RunID == ref.Which })
	}
	if err != nil && n == 0 || n < 0 || n > len(all.Runs) {
		return &Failure{Code: ExitUsage, Text: "no such run: " + "\"" + ref.Which + "\"", Hint: fmt.Sprintf("gpurun history lists the runs, 1 to %d; 0 means the values in the job file", len(all.Runs))}
	}
	if ref.past = n != len(all.Runs); n == 0 {
		ref.run, ref.over = state.Fact{}, state.Fact{}
	} else if ref.past {
		ref.run, ref.over = all.Runs[n-1].Run, all.Runs[n-1].Over
	}
	return nil
}

// Present returns a function that maps a key to the job's current name, or "". The job may have run
// under another name.
func (ref *Ref) Present() func(ledger int, key string) string {
	now, find := map[jobPlace]string{}, func(ledger int, key string) jobPlace { return jobPlace{fmt.Sprint(ledger), key, ""} }
	for i := 0; ref.Batch != nil && i < len(ref.Batch.Jobs); i++ {
		j := &ref.Batch.Jobs[i]
		now[find(j.File, j.Key.String())] = j.Name
	}
	return func(ledger int, key string) string { return now[find(ledger, key)] }
}

// LogOf returns the path that the job file gives to the log of an attempt, or "". The record has
// the path that was used at the time, perhaps in a folder that has been moved since.
func (ref *Ref) LogOf(x *state.Record) string {
	j := ref.named(x.Ledger, x.Job)
	if j == nil {
		return ""
	}
	r, _ := ref.Batch.Paths(j, files.Runtime(&x.Fact))
	return r.Stdout
}

// named returns the job of this name in one of the batch's files, or nil.
func (ref *Ref) named(ledger int, name string) *jobspec.Job {
	for i := 0; ref.Batch != nil && i < len(ref.Batch.Jobs); i++ {
		if j := &ref.Batch.Jobs[i]; j.File == ledger && j.Name == name {
			return j
		}
	}
	return nil
}

// JobNames returns the current names of a batch's jobs, or nil if its file cannot be read.
func (ref *Ref) JobNames() map[string]bool {
	if ref.Batch == nil {
		return nil
	}
	names := make(map[string]bool, len(ref.Batch.Jobs))
	for i := range ref.Batch.Jobs {
		names[ref.Batch.Jobs[i].Name] = true
	}
	return names
}

// SecretsOf returns the secrets in the parameters and env of a batch's jobs. b may be nil.
func SecretsOf(b *jobspec.Batch) (secrets []string) {
	if b == nil {
		return nil
	}
	environ := runner.Environ()
	for i := range b.Jobs {
		secrets = append(secrets, redact.Secrets(b.Variables(&b.Jobs[i], environ))...)
	}
	return secrets
}

// addJob adds a job that is only in the ledger.
func addJob(b *jobspec.Batch, name string, file int, recorded string) {
	key, _ := jobspec.ParseKey(recorded)
	b.Jobs = append(b.Jobs, jobspec.Job{ID: len(b.Jobs), Name: name, File: file, Key: key, Spec: &jobspec.Spec{When: jobspec.OnSuccess}, Queue: -1})
}
