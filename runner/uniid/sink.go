package uniid

import (
	"errors"
	"sync"
	"time"

	"gpurun/jobspec"
	"gpurun/state"
)

// Times of a Sink: how often a file that was busy is tried again, how often a
// file is looked at that scripts may have written over, and how long Close tries.
const (
	retryEvery = 50 * time.Millisecond
	checkEvery = time.Second
	closeFor   = 5 * time.Second
)

// A Sink follows a run, and keeps the files of those job files that have one. It
// blocks nobody: a goroutine of its own does the writing.
type Sink struct {
	batch *jobspec.Batch

	files   sync.Mutex // held while the keepers are at work
	keepers map[string]*Keeper

	mu     sync.Mutex
	queue  []news
	wake   chan struct{} // of capacity 1
	closed chan struct{}
	done   chan struct{}
	err    error // of the goroutine, readable once done is closed
}

// News is one thing to be set in one file.
type news struct {
	path, uniID string
	entry       entry
}

// New follows the jobs of a batch. Close ends it. Start starts a goroutine, and sees
// to its panics; nil for a plain one.
func New(b *jobspec.Batch, start func(func())) *Sink {
	s := &Sink{batch: b, keepers: map[string]*Keeper{}, wake: make(chan struct{}, 1), closed: make(chan struct{}), done: make(chan struct{})}
	if start == nil {
		start = func(f func()) { go f() }
	}
	start(s.run)
	return s
}

// Fact takes note of an attempt that runs or has ended.
func (s *Sink) Fact(job int, f state.Fact) {
	if job < 0 || f.UniID == "" {
		return
	}
	path := s.batch.Files[s.batch.Jobs[job].File].UniID
	if path == "" {
		return
	}
	e := entry{RetryCount: max(0, f.Attempt-1)}
	switch {
	case f.Kind == state.KindRunning:
		e.PID, e.State = f.PID, Running
	case f.Kind == state.KindEnd && f.State == state.Succeeded:
		e.State = Normal
	case f.Kind == state.KindEnd:
		e.State, e.ErrorType = Abnormal, f.ErrorType
	default:
		return
	}
	s.mu.Lock()
	s.queue = append(s.queue, news{path, f.UniID, e})
	s.mu.Unlock()
	select {
	case s.wake <- struct{}{}:
	default:
	}
}

// Report is the end that a script has written for its attempt, or "", and the kind
// of error that it named. It finds also what went into a file that was replaced while the script had it open: who
// looks at the path alone sees nothing of that.
func (s *Sink) Report(job int, uniID string) (end, errorType string) {
	if job < 0 {
		return "", ""
	}
	path := s.batch.Files[s.batch.Jobs[job].File].UniID
	if path == "" {
		return "", ""
	}
	s.files.Lock()
	defer s.files.Unlock()
	return s.keeper(path).report(uniID)
}

// keeper is the one of a file. The caller holds files.
func (s *Sink) keeper(path string) *Keeper {
	k := s.keepers[path]
	if k == nil {
		k = NewKeeper(path)
		s.keepers[path] = k
	}
	return k
}

// Snapshot tells nothing that the facts do not.
func (s *Sink) Snapshot(state.Snapshot) {}

// Close waits until everything is written, and returns what could not be. Files
// that are busy for very long are given up.
func (s *Sink) Close() error {
	close(s.closed)
	<-s.done
	return s.err
}

func (s *Sink) run() {
	defer close(s.done)
	defer func() {
		s.files.Lock()
		defer s.files.Unlock()
		for _, k := range s.keepers {
			k.close()
		}
		clear(s.keepers)
	}()
	closed, giveUp := s.closed, (<-chan time.Time)(nil)
	timer := time.NewTimer(checkEvery)
	defer timer.Stop()
	for {
		s.take()
		busy := s.flush()
		if closed == nil && !busy && !s.flush() { // again: what the first has displaced
			return
		}
		if timer.Reset(checkEvery); busy {
			timer.Reset(retryEvery)
		}
		select {
		case <-s.wake:
		case <-timer.C:
		case <-closed:
			closed, giveUp = nil, time.After(closeFor)
		case <-giveUp:
			return
		}
	}
}

// take hands what has come to the keepers.
func (s *Sink) take() {
	s.mu.Lock()
	queue := s.queue
	s.queue = nil
	s.mu.Unlock()
	s.files.Lock()
	defer s.files.Unlock()
	for _, n := range queue {
		s.keeper(n.path).put(n.uniID, n.entry)
	}
}

// flush says whether some file must be tried again soon.
func (s *Sink) flush() (busy bool) {
	s.files.Lock()
	defer s.files.Unlock()
	s.err = nil
	for _, k := range s.keepers {
		err := k.Flush()
		busy = busy || errors.Is(err, ErrBusy)
		s.err = errors.Join(s.err, err)
	}
	return busy
}
