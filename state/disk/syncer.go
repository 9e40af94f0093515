package disk

import (
	"errors"
	"strings"
	"sync"
	"time"
)

// syncEvery is the maximum time before an end in the ledger is synced to disk. Ends close together
// share one fsync. At every lookEach-th tick, the syncer also checks whether someone changed the
// state.
const (
	syncEvery = 300 * time.Millisecond
	lookEach  = 3
)

// syncer syncs ends to disk and then releases the attempts' files, in its own goroutine, so that
// the core never waits for a disk.
type syncer struct {
	fsync func() error
	look  func() error // checks whether someone changed the state
	end   chan struct{}
	done  chan struct{}
	once  sync.Once // for close

	mu     sync.Mutex
	thens  []func() // to call after the next sync, which happens only if there are any
	err    error
	untold error // the part of err that has not been reported yet
}

func newSyncer(fsync, look func() error, start func(func())) *syncer {
	s := &syncer{fsync: fsync, look: look, end: make(chan struct{}), done: make(chan struct{})}
	if start == nil {
		start = func(f func()) { go f() }
	}
	start(s.run)
	return s
}

// then calls f after the next sync.
func (s *syncer) then(f func()) {
	s.mu.Lock()
	s.thens = append(s.thens, f)
	s.mu.Unlock()
}

func (s *syncer) run() {
	defer close(s.done)
	tick := time.NewTicker(syncEvery)
	defer tick.Stop()
	for n := 1; ; n++ {
		select {
		case <-tick.C:
			s.flush()
			if n%lookEach == 0 {
				s.failed(s.look())
			}
		case <-s.end:
			s.flush()
			return
		}
	}
}

// flush syncs, then calls the functions that were waiting when the sync began. If the sync fails, it
// calls none of them, because an attempt's own record may be the only record of its end.
func (s *syncer) flush() {
	s.mu.Lock()
	thens := s.thens
	s.thens = nil
	s.mu.Unlock()
	if len(thens) == 0 {
		return
	}
	if err := s.fsync(); err != nil {
		s.failed(err)
		return
	}
	for _, then := range thens {
		then()
	}
}

// failed stores an error for the next call of failure. If every look returns the same error, it is
// reported only once.
func (s *syncer) failed(err error) {
	if err == nil {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.err == nil || !strings.Contains(s.err.Error(), err.Error()) {
		s.err, s.untold = errors.Join(s.err, err), err
	}
}

// failure returns why a sync or look failed, but each reason only once. The run then starts no more
// jobs.
func (s *syncer) failure() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	err := s.untold
	s.untold = nil
	return err
}

// close syncs everything to disk and ends the goroutine. Further calls do nothing.
func (s *syncer) close() (err error) {
	s.once.Do(func() {
		close(s.end)
		<-s.done
		err = s.err
	})
	return err
}
