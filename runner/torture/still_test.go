package torture

import (
	"sync"
	"testing"
	"time"
)

// stills are periods in which the whole machine was frozen, like a paused virtual machine, or too
// busy to run even this process. No run can meet a deadline then.
type stills struct {
	mu   sync.Mutex
	from []float64 // seconds since 1970
	to   []float64
}

const (
	stillTick = 50 * time.Millisecond
	stillFrom = 0.5 // minimum length of a pause, in seconds
)

// watchStills records these periods until the test ends.
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

// between returns how many seconds of a period the machine was frozen.
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

func TestFrozenTimeIsMeasured(t *testing.T) {
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

// An allowance is the remaining time to wait. It counts only time during which this process was
// running, because after a pause of the machine, all processes need a moment.
type allowance struct {
	left time.Duration
	last time.Time
}

func allow(d time.Duration) *allowance { return &allowance{d, time.Now()} }

// over deducts the time since the last call, and reports whether the allowance is used up.
func (a *allowance) over(now time.Time) bool {
	a.left -= min(now.Sub(a.last), time.Duration(stillFrom*float64(time.Second)))
	a.last = now
	return a.left <= 0
}

func TestAllowanceCountsOwnRunningTime(t *testing.T) {
	for _, c := range []struct {
		name  string
		steps []time.Duration // between the calls
		want  []bool
	}{
		{"used up", []time.Duration{400 * time.Millisecond, 400 * time.Millisecond, 300 * time.Millisecond}, []bool{false, false, true}},
		{"machine was frozen", []time.Duration{100 * time.Millisecond, 95 * time.Second, 300 * time.Millisecond, 100 * time.Millisecond}, []bool{false, false, false, true}},
	} {
		t.Run(c.name, func(t *testing.T) {
			a := allow(time.Second)
			now := a.last
			for i, d := range c.steps {
				now = now.Add(d)
				if got := a.over(now); got != c.want[i] {
					t.Errorf("step %d: got %v, want %v", i, got, c.want[i])
				}
			}
		})
	}
}
