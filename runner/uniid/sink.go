package uniid

import (
	"errors"
	"sync"
	"sync/atomic"
	"time"

	"gpurun/jobspec"
	"gpurun/state"
	"gpurun/state/schema"
)

// Times of a Sink: how often to retry a busy file, how often to check a file that scripts
// may have overwritten, and how long Close keeps trying.
const (
	retryEvery = 50 * time.Millisecond
	checkEvery = time.Second
	closeFor   = 5 * time.Second
)

// A Sink follows a run, and maintains the uni_id.json of each job file that has one. It
// never blocks: its own goroutine does the writing.
type Sink struct {
	batch atomic.Pointer[jobspec.Batch]

	files       sync.Mutex // held while maintainers are in use
	maintainers map[string]*maintainer

	mu     sync.Mutex
	queue  []update
	wake   chan struct{} // capacity 1
	closed chan struct{}
	done   chan struct{}
	err    error // from the goroutine, readable once done is closed
}

type update struct {
	path, uniID string
	entry       entry
}

// New returns a sink for the jobs of a batch; Close ends it. start starts a goroutine and
// handles its panics.
func New(b *jobspec.Batch, start func(func())) *Sink {
	s := &Sink{maintainers: map[string]*maintainer{}, wake: make(chan struct{}, 1), closed: make(chan struct{}), done: make(chan struct{})}
	s.batch.Store(b)
	start(s.run)
	return s
}

// Continue switches to the reloaded batch.
func (s *Sink) Continue(b *jobspec.Batch) {
	s.batch.Store(b)
}

// Fact records an attempt that runs or has ended.
func (s *Sink) Fact(job int, f state.Fact) {
	path := s.path(job)
	if path == "" || f.UniID == "" {
		return
	}
	e := entry{RetryCount: max(0, f.Attempt-1), PID: f.PID}
	switch {
	case f.Kind == state.KindRunning:
		e.State = running
	case f.Kind == state.KindEnd && f.State == state.Succeeded:
		e.State = normal
	case f.Kind == state.KindEnd:
		e.State, e.ErrorType = abnormal, f.ErrorType
	default:
		return
	}
	s.mu.Lock()
	s.queue = append(s.queue, update{path, f.UniID, e})
	s.mu.Unlock()
	select {
	case s.wake <- struct{}{}:
	default:
	}
}

// Report returns the end and the error type that a script has written for its attempt. Each is ""
// if there is none. Report also finds them in a file that was replaced while the script had it
// open.
func (s *Sink) Report(job int, uniID string) (end, errorType string) {
	path := s.path(job)
	if path == "" {
		return "", ""
	}
	s.files.Lock()
	defer s.files.Unlock()
	return s.maintainer(path).report(uniID)
}

func (s *Sink) path(job int) string {
	if job < 0 {
		return ""
	}
	b := s.batch.Load()
	return b.Files[b.Jobs[job].File].UniID
}

// maintainer returns the maintainer of a file. The caller holds files.
func (s *Sink) maintainer(path string) *maintainer {
	k := s.maintainers[path]
	if k == nil {
		k = newMaintainer(path)
		s.maintainers[path] = k
	}
	return k
}

// Snapshot does nothing: facts suffice.
func (s *Sink) Snapshot(*schema.Status) {}

// Close waits until everything is written, and returns an error if something could not be written.
// It gives up on files that stay busy.
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
		for _, k := range s.maintainers {
			k.close()
		}
		clear(s.maintainers)
	}()
	closed, giveUp := s.closed, (<-chan time.Time)(nil)
	timer := time.NewTimer(checkEvery)
	defer timer.Stop()
	for {
		busy := s.flush()
		if closed == nil && !busy && !s.flush() { // flush again, for changes in files that the first flush replaced
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

// flush passes the queue to the maintainers, and reports whether a file must be retried soon.
func (s *Sink) flush() (busy bool) {
	s.mu.Lock()
	queue := s.queue
	s.queue = nil
	s.mu.Unlock()
	s.files.Lock()
	defer s.files.Unlock()
	for _, n := range queue {
		s.maintainer(n.path).put(n.uniID, n.entry)
	}
	s.err = nil
	for _, k := range s.maintainers {
		err := k.flush()
		busy = busy || errors.Is(err, errBusy)
		s.err = errors.Join(s.err, err)
	}
	return busy
}
