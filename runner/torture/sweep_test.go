package torture

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
)

// A sweep chooses where to kill: at each n-th call of each kind of system call. It covers all kinds
// before it tries a second n of any, so even a short sweep covers every kind. The seed determines
// the order of n, so short sweeps with different seeds differ.
type sweep struct {
	rng   *rand.Rand
	all   []*line
	round []*line // the rest of this round
}

// A line tracks the kills at one kind of call. How often a start makes that call is unknown at
// first, and varies slightly.
type line struct {
	side, call string
	top        int          // higher n have not been tried
	tried      map[int]bool // by n: whether the process was killed
	last       int          // the last n tried
}

const (
	firstTop = 4
	lastTop  = 400
	beyond   = 3 // after this many n in a row without a kill, there are no more calls
)

func newSweep(seed uint64, calls map[string][]string) *sweep {
	s := &sweep{rng: rand.New(rand.NewPCG(seed, 7))}
	for _, side := range []string{"runner", "keeper"} {
		for _, call := range calls[side] {
			s.all = append(s.all, &line{side: side, call: call, top: firstTop, tried: map[int]bool{}})
		}
	}
	return s
}

// next returns where to kill next; nil if nothing is left.
func (s *sweep) next() (l *line, n int) {
	for fresh := false; ; fresh = true {
		for len(s.round) > 0 {
			l, s.round = s.round[0], s.round[1:]
			if left := l.left(); len(left) > 0 {
				return l, l.choose(left, s.rng)
			}
		}
		if fresh {
			return nil, 0
		}
		s.round = slices.Clone(s.all)
		s.rng.Shuffle(len(s.round), func(i, k int) { s.round[i], s.round[k] = s.round[k], s.round[i] })
		s.round = slices.DeleteFunc(s.round, func(l *line) bool { return len(l.left()) == 0 })
		if len(s.round) == 0 {
			return nil, 0
		}
	}
}

// choose picks a random remaining n. After an n without a kill, it first tries the next ones, to
// find out whether n was beyond the last call.
func (l *line) choose(left []int, rng *rand.Rand) int {
	if killed, ok := l.tried[l.last]; ok && !killed {
		for n := l.last + 1; n < l.last+beyond; n++ {
			if slices.Contains(left, n) {
				return n
			}
		}
	}
	return left[rng.IntN(len(left))]
}

// left returns the n that are known to be untried.
func (l *line) left() (left []int) {
	missed := 0
	for n := 1; n <= l.top+beyond && n <= lastTop && missed < beyond; n++ {
		switch killed, ok := l.tried[n]; {
		case !ok && n <= l.top:
			left, missed = append(left, n), 0
		case !ok && missed > 0: // to confirm that the last call has been passed
			left, missed = append(left, n), 0
		case ok && !killed:
			missed++
		default:
			missed = 0
		}
	}
	return left
}

// struck records whether the n-th call killed the process.
func (l *line) struck(n int, killed bool) {
	l.tried[n], l.last = killed, n
	if killed && n > l.top/2 {
		l.top = min(2*max(l.top, n), lastTop)
	}
}

// String describes the progress, for example "runner openat: 31 kills, up to call 31: all".
func (l *line) String() string {
	kills, reached := 0, 0
	for n, killed := range l.tried {
		if killed {
			kills, reached = kills+1, max(reached, n)
		}
	}
	how := "all"
	if left := len(l.left()); left > 0 {
		how = "more to come"
	}
	return fmt.Sprintf("%s %s: %d kills, up to call %d: %s", l.side, l.call, kills, reached, how)
}

// String returns a line for each kind of call.
func (s *sweep) String() string {
	lines, done := make([]string, len(s.all)), 0
	for i, l := range s.all {
		lines[i] = "\n  " + l.String()
		if len(l.left()) == 0 {
			done++
		}
	}
	return fmt.Sprintf("%d of %d kinds of call fully covered:%s", done, len(s.all), strings.Join(lines, ""))
}

// Every call that exists must be hit, with few misses.
func TestSweepStrikesEveryCall(t *testing.T) {
	made := map[string]int{"never": 0, "once": 1, "some": 5, "many": 77, "endless": 1000}
	s := newSweep(1, map[string][]string{"runner": {"never", "some", "endless"}, "keeper": {"once", "many"}})
	vain := map[string]int{}
	for l, n := s.next(); l != nil; l, n = s.next() {
		if _, twice := l.tried[n]; twice {
			t.Fatalf("%s=%d was tried twice", l.call, n)
		}
		if n > made[l.call] {
			vain[l.call]++
		}
		l.struck(n, n <= made[l.call])
	}
	for _, l := range s.all {
		for n := 1; n <= min(made[l.call], lastTop); n++ {
			if !l.tried[n] {
				t.Errorf("%s=%d was not hit", l.call, n)
			}
		}
		if vain[l.call] > 40 {
			t.Errorf("%s: %d misses, want at most 40", l.call, vain[l.call])
		}
	}
	if got, want := s.all[1].String(), "runner some: 5 kills, up to call 5: all"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
	if got, want := s.String(), "5 of 5 kinds"; !strings.HasPrefix(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
}

// A short sweep must cover every kind of call on both sides, and another seed must cover other
// calls.
func TestShortSweepCoversEveryKindOfCall(t *testing.T) {
	calls := map[string][]string{"runner": runnerCalls, "keeper": keeperCalls}
	first := func(seed uint64) (order []string, seen map[string]int) {
		s, seen := newSweep(seed, calls), map[string]int{}
		for range 3 * len(s.all) {
			l, n := s.next()
			l.struck(n, true)
			order = append(order, fmt.Sprint(l.side, l.call, n))
			seen[l.side+l.call]++
		}
		return order, seen
	}
	a, seen := first(1)
	for _, side := range []string{"runner", "keeper"} {
		for _, call := range calls[side] {
			if seen[side+call] != 3 {
				t.Errorf("%s %s: got %d kills in the first three rounds, want 3", side, call, seen[side+call])
			}
		}
	}
	again, _ := first(1)
	b, _ := first(2)
	if !slices.Equal(a, again) || slices.Equal(a, b) {
		t.Error("the order must depend on the seed, and only on the seed")
	}
}
