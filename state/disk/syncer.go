package disk

import (
	"errors"
	"sync"
	"time"
)

// syncEvery is how long an end may stand in the ledger before it is on the disk:
// all that come together share one fsync.
const syncEvery = 300 * time.Millisecond

// lookEvery is how long somebody's change of the state may go unnoticed.
const lookEvery = time.Second

// syncer carries ends to the disk and removes attempt folders behind them, in a
// goroutine of its own: the loop never waits for a disk.
type syncer struct {
	mu      sync.Mutex
	ledgers []*ledger
	look    func() error // whether somebody has touched the state, every second
	wanted  bool
	remains []remains // to clear away after the next sync
	recycle *recycler
	wake    chan struct{}
	end     chan struct{}
	done    chan struct{}
	once    sync.Once // of close
	err     error
	untold  error // of err, what no Append has reported yet
}

// remains are the folder of an attempt that is over.
type remains struct {
	dir string
	fit bool // to be used again
}

func newSyncer(ledgers []*ledger, r *recycler, look func() error, start func(func())) *syncer {
	s := &syncer{ledgers: ledgers, recycle: r, look: look, wake: make(chan struct{}, 1), end: make(chan struct{}), done: make(chan struct{})}
	if start == nil {
		start = func(f func()) { go f() }
	}
	start(s.run)
	return s
}

func (s *syncer) want() {
	s.mu.Lock()
	s.wanted = true
	s.mu.Unlock()
	s.poke()
}

func (s *syncer) remove(r remains) {
	s.mu.Lock()
	s.remains = append(s.remains, r)
	s.mu.Unlock()
	s.poke()
}

func (s *syncer) poke() {
	select {
	case s.wake <- struct{}{}:
	default:
	}
}

func (s *syncer) run() {
	defer close(s.done)
	second := time.NewTicker(lookEvery)
	defer second.Stop()
	for {
		select {
		case <-s.wake:
		case <-second.C:
			s.failed(s.look())
			continue
		case <-s.end:
			s.flush()
			return
		}
		select { // wait for company
		case <-time.After(syncEvery):
		case <-s.end:
		}
		s.flush()
	}
}

// flush syncs, then removes what was waiting when the sync began. Without a sync
// that went well nothing is removed: the attempt's own record is the only one.
func (s *syncer) flush() {
	s.mu.Lock()
	wanted, remains := s.wanted, s.remains
	s.wanted, s.remains = false, nil
	s.mu.Unlock()
	if wanted || len(remains) > 0 {
		if err := s.fsync(); err != nil {
			s.failed(err)
			return
		}
	}
	for _, r := range remains {
		if !r.fit || !s.recycle.keep(r.dir) {
			removeAttempt(r.dir)
		}
	}
}

// failed notes an error for whoever appends next, or asks.
func (s *syncer) failed(err error) {
	if err == nil {
		return
	}
	s.mu.Lock()
	s.err, s.untold = errors.Join(s.err, err), err
	s.mu.Unlock()
}

// failure is why the last sync failed, once: whoever appends next stops starting jobs.
func (s *syncer) failure() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	err := s.untold
	s.untold = nil
	return err
}

func (s *syncer) fsync() error {
	var errs []error
	for _, l := range s.ledgers {
		errs = append(errs, l.fsync())
	}
	return errors.Join(errs...)
}

// close carries everything to the disk, and ends the goroutine. The second time there
// is nothing more to do.
func (s *syncer) close() (err error) {
	s.once.Do(func() {
		close(s.end)
		<-s.done
		s.recycle.drop()
		err = s.err
	})
	return err
}
