// Package disk keeps a batch's state on disk. No other package knows its file names:
// the folder, lock, ledger, logs and attempt folders.
package disk

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"sort"

	"gopkg.in/natefinch/lumberjack.v2"

	"gpurun/state"
)

// Options configure where state is kept and how it is opened.
type Options struct {
	StateDir string // "" for .gpurun next to the job file
	Abandon  string // host whose open attempts are given up as lost

	// Trace reads an attempt's start from its folder, for a ledger that has lost it; nil if
	// nothing can have begun. An error makes Open fail.
	Trace func(dir, uniID string) (state.Trace, error)

	Go func(func()) // starts a goroutine and handles its panics; nil for a plain go statement
}

// State is the open state of a batch: locked for this process, with its ledgers
// loaded. Append and the methods for attempt folders are safe for concurrent use.
type State struct {
	files    []string          // job files
	dirs     []string          // their folders
	locks    []*os.File        // lock files of the folders, in locking order
	jobLocks []*os.File        // the job files themselves, where they can be locked
	left     []map[string]bool // by file: attempt folders found, and whether the ledger has their end
	ledgers  []*ledger
	history  *state.History
	warnings []string
	runLog   *lumberjack.Logger
	sync     *syncer
}

// Open locks all files, in the order of their folders' paths, or none (LockedError),
// and reads the ledgers. Missing folders are created. The caller must close the State.
func Open(files []string, o Options) (*State, error) {
	s := &State{files: files, dirs: make([]string, len(files)), ledgers: make([]*ledger, len(files)), left: make([]map[string]bool, len(files)), history: state.NewHistory()}
	order := make([]int, len(files))
	for i, f := range files {
		s.dirs[i], order[i] = Folder(f, o.StateDir), i
	}
	sort.Slice(order, func(i, k int) bool { return s.dirs[order[i]] < s.dirs[order[k]] })
	for _, i := range order {
		if err := s.lock(i); err != nil {
			return nil, errors.Join(err, s.unlock())
		}
	}
	for i := range files {
		if err := s.read(i, o); err != nil {
			return nil, errors.Join(err, s.unlock())
		}
	}
	s.runLog = &lumberjack.Logger{Filename: filepath.Join(s.dirs[0], runLogName), MaxSize: 10, MaxBackups: 3}
	s.sync = newSyncer(s.ledgers, s.look, o.Go)
	s.sweep()
	return s, nil
}

func (s *State) lock(i int) error {
	if err := above(s.dirs[i], s.files[i]); err != nil {
		return err
	}
	if err := makeFolder(s.dirs[i]); err != nil {
		return err
	}
	if err := within(s.dirs[i], s.files[i]); err != nil {
		return err
	}
	l, err := takeLock(s.files[i], s.dirs[i])
	if err != nil {
		return err
	}
	s.locks = append(s.locks, l)
	for _, held := range s.jobLocks {
		if sameFile(held, s.files[i]) {
			return nil // one file under two names
		}
	}
	j, err := lockJobFile(s.files[i])
	if j != nil {
		s.jobLocks = append(s.jobLocks, j)
	}
	return err
}

func (s *State) unlock() error {
	var errs []error
	for _, l := range s.ledgers {
		if l != nil {
			errs = append(errs, l.close())
		}
	}
	for _, l := range s.locks {
		clearHolder(l)
		errs = append(errs, l.Close())
	}
	for _, l := range s.jobLocks {
		errs = append(errs, l.Close())
	}
	return errors.Join(errs...)
}

// read loads one ledger and opens it for appending.
func (s *State) read(i int, o Options) error {
	path := filepath.Join(s.dirs[i], ledgerName)
	s.left[i] = s.attemptFolders(i)
	r := newReader(path)
	var ended func(string)
	if len(s.left[i]) > 0 {
		ended = func(uniID string) {
			if _, there := s.left[i][uniID]; there {
				s.left[i][uniID] = true
			}
		}
	}
	if err := r.load(s.history, i, ended, true); err != nil {
		return err
	}
	s.warnings = append(s.warnings, r.Warnings...)
	found, err := s.recover(i, r, o)
	if err != nil {
		return err
	}
	given, err := elsewhere(s.history, i, r.Run, o.Abandon)
	if err != nil {
		return err
	}
	given = append(found, given...)
	l, err := openLedger(path, r.torn)
	if err != nil {
		return in(s.dirs[i], err)
	}
	s.ledgers[i] = l
	for _, f := range given {
		if _, err := l.append(f); err != nil {
			return in(s.dirs[i], err)
		}
		if f.Kind != state.KindStart { // recover has applied the starts
			s.history.Apply(i, f)
		}
	}
	return nil
}

// recover finds attempts that began but have neither start nor end in the ledger,
// because somebody truncated, edited or removed it, or its line is broken. They may be
// running. It returns their starts, which must be written to the ledger again. The folder
// of one whose start cannot be restored stays, and a warning names it.
func (s *State) recover(i int, r *reader, o Options) (found []state.Fact, err error) {
	for id, over := range s.left[i] {
		dir := s.AttemptDir(i, id)
		if _, open := s.history.Open[id]; open || over || o.Trace == nil {
			continue
		}
		t, err := o.Trace(dir, id)
		if err != nil {
			return nil, &FolderError{s.dirs[i], err}
		}
		if t.Start.Kind == "" {
			if t.Began {
				delete(s.left[i], id)
				s.warnings = append(s.warnings, dir+": this attempt began but the ledger has no start for it; make sure it is not running, then remove the folder")
			}
			continue
		}
		if r.Run.Kind == "" {
			here := Host()
			t.Run.MachineID = here.MachineID
			r.Run = t.Run
		}
		s.history.Apply(i, t.Start)
		s.warnings = append(s.warnings, fmt.Sprintf("%s: the start of %s was missing; restored it from %s", r.path, t.Start.Job, dir))
		found = append(found, t.Start)
	}
	return found, nil
}

// Load reads the ledgers of files as they are now. It takes no lock and creates
// nothing; a line that a live run is still writing is skipped.
func Load(files []string, o Options) (*state.History, []string, error) {
	h := state.NewHistory()
	var warnings []string
	for i, f := range files {
		r := newReader(filepath.Join(Folder(f, o.StateDir), ledgerName))
		r.live = true
		if err := r.load(h, i, nil, false); err != nil {
			return nil, nil, err
		}
		warnings = append(warnings, r.Warnings...)
		h.Ran(i, r.Run)
	}
	return h, warnings, nil
}

// History returns the ledgers' history as of Open. The caller owns it from then on.
func (s *State) History() *state.History { return s.history }

// Warnings returns broken lines and other things the user should know about.
func (s *State) Warnings() []string { return s.warnings }

// Dir returns the folder of a file's state.
func (s *State) Dir(file int) string { return s.dirs[file] }

// RunLog returns the batch's rotated run.log, in the first file's folder.
func (s *State) RunLog() io.Writer { return s.runLog }

// Append writes one fact to a file's ledger in a single write. An end is on disk
// within a second. After an error the fact is not in the ledger; the error may be
// about earlier facts that a failing disk did not sync.
func (s *State) Append(file int, f state.Fact) error {
	_, err := s.AppendAll(file, f)
	return err
}

// AppendAll is like Append for several facts in a single write. After an error, the
// first n of them are in the ledger.
func (s *State) AppendAll(file int, facts ...state.Fact) (n int, err error) {
	if err := s.sync.failure(); err != nil {
		return 0, in(s.dirs[file], err)
	}
	n, err = s.ledgers[file].append(facts...)
	if slices.ContainsFunc(facts[:n], func(f state.Fact) bool { return f.Kind == state.KindEnd || f.Kind == state.KindForget }) {
		s.sync.want()
	}
	return n, in(s.dirs[file], err)
}

// Failure returns why the state is no longer reliable, once per cause: a sync failed,
// or somebody removed, replaced or truncated the ledger or lock.
func (s *State) Failure() error { return in(s.dirs[0], s.sync.failure()) }

// look checks that the locks and ledgers are still the files that were opened.
func (s *State) look() error {
	var errs []error
	for i, l := range s.locks {
		if path := l.Name(); !sameFile(l, path) {
			if fresh, err := takeLock("", filepath.Dir(path)); err == nil {
				s.locks[i] = fresh
				l.Close()
			}
			errs = append(errs, &TakenError{What: "removed or replaced " + lockName})
		}
	}
	for _, l := range s.ledgers {
		errs = append(errs, l.look())
	}
	return errors.Join(errs...)
}

// Sync syncs everything to disk after the last Append. Some file systems report only
// then that they are full.
func (s *State) Sync() error { return in(s.dirs[0], s.sync.close()) }

// Close syncs everything to disk and releases the locks.
func (s *State) Close() error {
	err := s.sync.close()
	for i, l := range s.ledgers { // save the next run reading what this one has written
		if added := l.size - l.began; added >= indexFrom && added < indexClose {
			_ = newReader(l.path).load(state.NewHistory(), i, nil, true)
		}
	}
	return errors.Join(err, s.runLog.Close(), s.unlock())
}

// ErrNewer reports that a newer gpurun wrote the ledger.
var ErrNewer = errors.New("written by a newer gpurun: use that version")

func isNotExist(err error) bool { return errors.Is(err, os.ErrNotExist) }
