package torture

import (
	"sync"
	"testing"
	"time"
)

// stills are when the whole machine stood still, as a virtual one does that is
// paused, or was too busy even for this process: nobody can be on time then.
type stills struct {
	mu   sync.Mutex
	from []float64 // seconds since 1970
	to   []float64
}

const (
	stillTick = 50 * time.Millisecond
	stillFrom = 0.5 // seconds from which a pause is noted
)

// watchStills notes them until the test ends.
func watchStills(t testing.TB) *stills {
	s, done := &stills{}, make(chan struct{})
	var watch sync.WaitGroup
	watch.Go(func() {
		tick := time.NewTicker(stillTick)
		defer tick.Stop()
		for last := seconds(time.Now()); ; {
			select {
			case <-done:
				return
			case <-tick.C:
			}
			now := seconds(time.Now())
			s.note(last, now)
			last = now
		}
	})
	t.Cleanup(func() {
		close(done)
		watch.Wait()
	})
	return s
}

func (s *stills) note(from, to float64) {
	if to-from < stillFrom {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.from, s.to = append(s.from, from), append(s.to, to)
}

// between is for how long it stood still from one time to another, in seconds.
func (s *stills) between(from, to float64) (sum float64) {
	if s == nil {
		return 0
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for i := range s.from {
		sum += max(0, min(to, s.to[i])-max(from, s.from[i]))
	}
	return sum
}

func TestStills(t *testing.T) {
	s := &stills{}
	s.note(10, 10.1)
	s.note(20, 24)
	s.note(30, 31)
	for _, c := range []struct{ from, to, want float64 }{{0, 20, 0}, {0, 100, 5}, {21, 22, 1}, {23, 30.5, 1.5}} {
		if got := s.between(c.from, c.to); got != c.want {
			t.Errorf("from %v to %v: got %v, want %v", c.from, c.to, got, c.want)
		}
	}
}
