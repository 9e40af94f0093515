package disk

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"sort"

	"gopkg.in/natefinch/lumberjack.v2"

	"gpurun/state"
)

// Options say where state is kept.
type Options struct {
	StateDir string // "" for .gpurun beside the job file
	Abandon  string // a host whose open attempts are given up as lost

	// Recover reads the start of an attempt from its folder, and the machine it was
	// made on, where a ledger has lost them; nil where that is not asked. A start
	// without a kind: nothing of the attempt runs. An error keeps the state shut.
	Recover func(dir, uniID string) (start, run state.Fact, err error)

	Go func(func()) // starts a goroutine, and sees to its panics; nil for a plain one
}

// State is the open state of a batch: locked for this process, its ledgers read.
// Append and the attempt folders may be used from several goroutines.
type State struct {
	files    []string          // job files
	dirs     []string          // their folders
	locks    []*os.File        // lock files of the folders, in the order they were taken
	jobLocks []*os.File        // the job files themselves, as far as they can be locked
	left     []map[string]bool // by file: attempt folders that were there, and whether the ledger has their end
	ledgers  []*ledger
	history  *state.History
	warnings []string
	runLog   *lumberjack.Logger
	sync     *syncer
	recycler *recycler
}

// Open takes the locks of all files in the order of their folders' paths, or none
// (LockedError), and reads the ledgers. Folders that are not there are made. The
// caller closes the State.
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
	s.recycler = newRecycler()
	s.sync = newSyncer(s.ledgers, s.recycler, s.look, o.Go)
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
	r := newReader(path, func(f state.Fact) {
		s.history.Apply(i, f)
		if _, there := s.left[i][f.UniID]; there && f.Kind == state.KindEnd {
			s.left[i][f.UniID] = true
		}
	})
	// Of folders that are left, ends are looked for in every line.
	r.into(s.history, i, len(s.left[i]) == 0)
	if err := r.read(); err != nil {
		return err
	}
	r.index()
	s.warnings = append(s.warnings, r.warnings...)
	found, err := s.recover(i, r, o)
	if err != nil {
		return err
	}
	given, err := elsewhere(s.history, i, r.host, o.Abandon)
	if err != nil {
		return err
	}
	given = append(found, given...)
	l, err := openLedger(path, r.torn)
	if err != nil {
		return &FolderError{s.dirs[i], cause(err)}
	}
	s.ledgers[i] = l
	for _, f := range given {
		if _, err := l.append(f); err != nil {
			return &FolderError{s.dirs[i], cause(err)}
		}
		if f.Kind != state.KindStart { // those that were found are known already
			s.history.Apply(i, f)
		}
	}
	return nil
}

// recover finds the attempts that began and of which the ledger has neither start
// nor end, since somebody has cut it short, edited or removed it: they may be
// running. Their starts are facts that the ledger gets again.
func (s *State) recover(i int, r *reader, o Options) (found []state.Fact, err error) {
	for id, over := range s.left[i] {
		dir := s.AttemptDir(i, id)
		if _, open := s.history.Open[id]; open || over || o.Recover == nil || !began(dir) {
			continue
		}
		start, run, err := o.Recover(dir, id)
		if err != nil {
			return nil, &FolderError{s.dirs[i], err}
		}
		if start.Kind == "" {
			continue
		}
		if r.host.Kind == "" {
			here := Host()
			run.MachineID = here.MachineID
			r.host = run
		}
		s.history.Apply(i, start)
		s.warnings = append(s.warnings, fmt.Sprintf("%s: the start of %s was missing and is put back from %s", r.path, start.Job, dir))
		found = append(found, start)
	}
	return found, nil
}

// began reports whether the first process of an attempt has been there.
func began(dir string) bool {
	_, err := os.Lstat(filepath.Join(dir, begunName))
	return err == nil
}

// Load reads the ledgers of files as they are now, without lock, and makes
// nothing; a line that a live run is just writing is passed over.
func Load(files []string, o Options) (*state.History, []string, error) {
	h := state.NewHistory()
	var warnings []string
	for i, f := range files {
		r := newReader(filepath.Join(Folder(f, o.StateDir), ledgerName), func(f state.Fact) { h.Apply(i, f) })
		r.live = true
		r.into(h, i, true)
		if err := r.read(); err != nil {
			return nil, nil, err
		}
		warnings = append(warnings, r.warnings...)
		h.Ran(i, r.host)
	}
	return h, warnings, nil
}

// History is what the ledgers said when they were opened. The caller takes it over.
func (s *State) History() *state.History { return s.history }

// Warnings are broken lines and other things that somebody should know of.
func (s *State) Warnings() []string { return s.warnings }

// Dir is the folder of a file's state.
func (s *State) Dir(file int) string { return s.dirs[file] }

// RunLog is the rotated run.log of the batch, in the first file's folder.
func (s *State) RunLog() io.Writer { return s.runLog }

// Append writes one fact to the ledger of a file, with a single write. An end is
// on the disk within a second. After an error the fact is not in the ledger; it
// may be that of facts before it, which a failing disk did not take.
func (s *State) Append(file int, f state.Fact) error {
	_, err := s.AppendAll(file, f)
	return err
}

// AppendAll is Append of several facts, all with a single write. After an error the
// first n of them are in the ledger.
func (s *State) AppendAll(file int, facts ...state.Fact) (n int, err error) {
	if err := s.sync.failure(); err != nil {
		return 0, &FolderError{s.dirs[file], cause(err)}
	}
	n, err = s.ledgers[file].append(facts...)
	sync := false
	for i := range facts[:n] {
		s.recycler.saw(&facts[i])
		sync = sync || facts[i].Kind == state.KindEnd || facts[i].Kind == state.KindForget
	}
	if sync {
		s.sync.want()
	}
	if err != nil {
		return n, &FolderError{s.dirs[file], cause(err)}
	}
	return n, nil
}

// Failure returns why the state cannot be relied on any more, once for each cause:
// a failed sync, or somebody who removed, replaced or cut short the ledger or the lock.
func (s *State) Failure() error {
	if err := s.sync.failure(); err != nil {
		return &FolderError{s.dirs[0], cause(err)}
	}
	return nil
}

// look checks that the locks and ledgers are still the ones that were opened.
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

// Sync carries everything to the disk, after the last Append: some file systems say
// only then that they had no room.
func (s *State) Sync() error {
	if err := s.sync.close(); err != nil {
		return &FolderError{s.dirs[0], cause(err)}
	}
	return nil
}

// Close carries everything to the disk and lets the locks go.
func (s *State) Close() error {
	err := s.sync.close()
	for i := range s.files {
		s.freshen(i)
	}
	return errors.Join(err, s.runLog.Close(), s.unlock())
}

// ErrNewer says that a newer gpurun wrote the ledger.
var ErrNewer = errors.New("a newer gpurun wrote it: use that one")

func isNotExist(err error) bool { return errors.Is(err, os.ErrNotExist) }
