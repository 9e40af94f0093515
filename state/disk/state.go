package disk

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/sys/unix"
	"gopkg.in/natefinch/lumberjack.v2"

	"gpurun/state"
)

// Options configure where state is kept and how it is opened.
type Options struct {
	StateDir string // "" for .gpurun next to the job file
	Abandon  string // host whose open attempts are recorded as lost

	// Trace reads an attempt's start from its folder, for a ledger that lacks it. Nil means that no
	// attempt can have begun. If Trace fails, Open fails.
	Trace func(dir, uniID string) (state.Trace, error)

	// Over reports whether an attempt of a run has ended, on whatever host it ran: its end was
	// recorded, or it was cut off when the cluster job that contained the run ended. Nil means that
	// this is never known.
	Over func(run state.Fact, dir, uniID string) (recorded, cut bool)

	Go func(func()) // starts a goroutine and handles its panics; nil for a plain go statement
}

// State is the open state of a batch: locked for this process, with its ledgers loaded. Append and
// the methods for attempts are safe for concurrent use.
type State struct {
	files    []*fileState
	history  *state.History
	warnings []string
	runLog   *lumberjack.Logger
	sync     *syncer
}

// A fileState is the state of one job file.
type fileState struct {
	job, dir string   // the job file and its state folder
	lock     *os.File // the lock file in the state folder
	jobLock  *os.File // the job file; nil if it cannot be locked, or is locked under another name
	ledger   *ledger
	access   access // set by Share
	journal  journal
}

// Open locks all files, in the order of their folders' paths, or none (LockedError), and reads the
// ledgers. Missing folders are created. The caller must close the State.
func Open(files []string, o Options) (*State, error) {
	s := &State{history: state.NewHistory()}
	for _, f := range files {
		s.files = append(s.files, &fileState{job: f, dir: Folder(f, o.StateDir), journal: journal{slots: map[string]int{}, earlier: map[string]bool{}}})
	}
	over, err := s.open(o)
	if err != nil {
		return nil, errors.Join(err, s.unlock())
	}
	s.runLog = &lumberjack.Logger{Filename: filepath.Join(s.files[0].dir, runLogName), MaxSize: 10, MaxBackups: 3}
	s.sync = newSyncer(s.fsync, s.look, o.Go)
	for i, f := range s.files {
		for _, id := range over[i] {
			s.RemoveAttempt(i, id)
		}
		s.sync.then(f.sweep)
	}
	return s, nil
}

// open locks the files and reads the ledgers. It returns, by file, the attempts that have ended.
func (s *State) open(o Options) (over [][]string, err error) {
	byFolder := slices.SortedFunc(slices.Values(s.files), func(a, b *fileState) int { return strings.Compare(a.dir, b.dir) })
	for _, f := range byFolder {
		if err := s.lock(f); err != nil {
			return nil, err
		}
	}
	for i := range s.files {
		ids, err := s.read(i, o)
		if err != nil {
			return nil, err
		}
		over = append(over, ids)
	}
	return over, nil
}

func (s *State) lock(f *fileState) error {
	err := prepare(f.dir, f.job)
	if err != nil {
		return err
	}
	if f.lock, err = takeLock(f.job, f.dir); err != nil {
		return err
	}
	for _, other := range s.files {
		if other.jobLock != nil && sameFile(other.jobLock, f.job) {
			return nil // the same file under two names
		}
	}
	f.jobLock, err = lockJobFile(f.job)
	return err
}

// Relock locks job files that have been replaced since they were locked, as editors do when they
// save. If another run has locked one in the meantime, that run keeps the lock. The lock in the state
// folder still keeps the two runs apart, unless the other run uses another folder.
func (s *State) Relock() {
	for _, f := range s.files {
		if f.jobLock == nil || sameFile(f.jobLock, f.job) {
			continue
		}
		if again, err := lockJobFile(f.job); err == nil && again != nil {
			f.jobLock.Close()
			f.jobLock = again
		}
	}
}

func (s *State) unlock() error {
	var errs []error
	for _, f := range s.files {
		if f.ledger != nil {
			errs = append(errs, f.ledger.close())
		}
		if f.lock != nil {
			clearHolder(f.lock)
			errs = append(errs, f.lock.Close())
		}
		if f.jobLock != nil {
			errs = append(errs, f.jobLock.Close())
		}
	}
	return errors.Join(errs...)
}

// read loads one ledger and opens it for appending. It returns the attempts whose files can be
// removed: those with an end in the ledger, and those that are not in the ledger and never began.
func (s *State) read(i int, o Options) (over []string, err error) {
	dir := s.files[i].dir
	r := newReader(filepath.Join(dir, ledgerName))
	left, err := attemptsLeft(dir) // list them first: reading the ledger marks those that have ended
	if err != nil {
		return nil, err
	}
	var ended func(string)
	if len(left) > 0 {
		ended = func(uniID string) {
			if _, there := left[uniID]; there {
				left[uniID] = true
			}
		}
	}
	if err := r.load(s.history, i, ended, true); err != nil {
		return nil, err
	}
	s.history.SetRun(i, r.Run, r.Over)
	s.warnings = append(s.warnings, r.Warnings...)
	facts, err := s.recover(i, r, left, o)
	if err != nil {
		return nil, err
	}
	given, err := s.elsewhere(i, r.Run, o)
	if err != nil {
		return nil, err
	}
	l, err := openLedger(r.path, r.torn)
	if err != nil {
		return nil, in(dir, err)
	}
	s.files[i].ledger = l
	for _, f := range append(facts, given...) {
		if _, err := l.append(f); err != nil {
			return nil, in(dir, err)
		}
		if f.Kind != state.KindStart { // recover has already applied the starts
			s.history.Apply(i, f)
		}
	}
	for id, a := range s.history.Open {
		if a.Ledger == i {
			s.files[i].journal.earlier[id] = true
		}
	}
	for id := range left {
		if !s.files[i].journal.earlier[id] {
			over = append(over, id)
		}
	}
	return over, nil
}

// recover finds attempts that began but have neither a start nor an end in the ledger, because
// someone truncated, edited or removed it, or because a line is broken. They may still be running.
// recover returns their starts, which must be written to the ledger again. If a start cannot be
// restored, the attempt's folder stays, and a warning names it.
func (s *State) recover(i int, r *reader, left map[string]bool, o Options) (found []state.Fact, err error) {
	for id, over := range left {
		dir := s.AttemptDir(i, id)
		if _, open := s.history.Open[id]; open || over || o.Trace == nil {
			continue
		}
		t, err := o.Trace(dir, id)
		if err != nil {
			return nil, &FolderError{s.files[i].dir, err}
		}
		if t.Start.Kind == "" {
			if t.Began {
				s.files[i].journal.earlier[id] = true
				s.warnings = append(s.warnings, dir+": this attempt started, but the ledger does not record it; make sure it is not running, then remove the folder "+filepath.Dir(dir))
			}
			continue
		}
		if r.Run.Kind == "" {
			here := Host()
			t.Run.MachineID = here.MachineID
			r.Run = t.Run
		}
		s.history.Apply(i, t.Start)
		s.warnings = append(s.warnings, fmt.Sprintf("%s: restored the missing start of %s from %s", r.path, t.Start.Job, dir))
		found = append(found, t.Start)
	}
	return found, nil
}

// Load reads the current ledgers of files. It takes no lock and creates nothing. It skips a line
// that a live run is still writing.
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
		h.SetRun(i, r.Run, r.Over)
	}
	return h, warnings, nil
}

// History returns the history of the ledgers, as Open read them. The caller owns it from then on.
func (s *State) History() *state.History { return s.history }

// Warnings returns warnings for the user, such as broken lines.
func (s *State) Warnings() []string { return s.warnings }

// Dir returns the state folder of a file.
func (s *State) Dir(file int) string { return s.files[file].dir }

// RunLog returns a rotating writer for the batch's run.log, which is in the first file's folder.
func (s *State) RunLog() io.Writer { return s.runLog }

// Copies returns the folders for copies of the code that a file's jobs run in. New copies go to the
// first one. If this user can safely write to .gpurun in the jobs' work dir, the first one is there,
// on the same file system as the code.
func (s *State) Copies(file int, workDir string) []string {
	f, hide := s.files[file], filepath.Join(workDir, hidden)
	dirs := []string{filepath.Join(f.dir, copiesName)}
	own := Folder(f.job, hide)
	if filepath.Dir(f.dir) != hide && unix.Access(workDir, unix.W_OK) == nil && above(own, f.job) == nil && trusted(own, f.job, 0) == nil {
		dirs = append([]string{filepath.Join(own, copiesName)}, dirs...)
	}
	return dirs
}

// Output returns the path of a detached run's output, in the first file's folder.
func (s *State) Output() string { return filepath.Join(s.files[0].dir, outputName) }

// Append writes facts to a file's ledger in a single write. Ends are on disk within a second. After
// an error, the first n facts are in the ledger. The error may concern earlier facts that could not
// be synced.
func (s *State) Append(file int, facts ...state.Fact) (n int, err error) {
	if err := s.sync.failure(); err != nil {
		return 0, in(s.files[file].dir, err)
	}
	n, err = s.files[file].ledger.append(facts...)
	if slices.ContainsFunc(facts[:n], func(f state.Fact) bool { return f.Kind == state.KindEnd || f.Kind == state.KindForget }) {
		s.sync.then(func() {}) // requests a sync
	}
	return n, in(s.files[file].dir, err)
}

// Failure returns why the state is no longer reliable, once per cause: a sync failed, or someone
// removed, replaced or truncated the ledger or lock.
func (s *State) Failure() error { return in(s.files[0].dir, s.sync.failure()) }

// look checks that the locks and ledgers are still the files that were opened.
func (s *State) look() error {
	var errs []error
	for _, f := range s.files {
		err := f.ledger.look()
		if path := f.lock.Name(); !sameFile(f.lock, path) {
			if fresh, err := takeLock("", f.dir); err == nil {
				f.lock.Close()
				f.lock = fresh
			}
			err = cmp.Or(err, error(&TakenError{What: "removed or replaced " + lockName}))
		}
		errs = append(errs, err)
	}
	return errors.Join(errs...)
}

func (s *State) fsync() error {
	var errs []error
	for _, f := range s.files {
		errs = append(errs, f.ledger.fsync())
	}
	return errors.Join(errs...)
}

// Sync syncs everything to disk after the last Append. Some file systems report only at this point
// that they are full.
func (s *State) Sync() error { return in(s.files[0].dir, s.sync.close()) }

// Close syncs everything to disk and releases the locks.
func (s *State) Close() error {
	err := s.sync.close()
	for i, f := range s.files {
		if err == nil {
			f.sweep()
		}
		l := f.ledger // write an index, so that the next run need not read this run's lines
		if added := l.size - l.began; added >= indexFrom && added < indexClose {
			_ = newReader(l.path).load(state.NewHistory(), i, nil, true)
		}
		f.access.give(f.dir)
	}
	return errors.Join(err, s.runLog.Close(), s.unlock())
}

// ErrNewer reports that a newer gpurun wrote the ledger.
var ErrNewer = errors.New("the ledger has a newer format")

func isNotExist(err error) bool { return errors.Is(err, os.ErrNotExist) }
