package runner

import (
	"context"
	"testing"
	"time"

	"gpurun/jobspec"
	"gpurun/runner/codecopy"
	"gpurun/runner/sched"
)

// Where looking through a copy of the code takes long, no second look begins meanwhile: ends would
// wait for all of them.
func TestCollectOnce(t *testing.T) {
	var looks []func()
	now := time.Hour
	l := newLoop(context.Background(), Config{
		Batch: &jobspec.Batch{}, Now: func() sched.Now { return sched.Now{Boot: now} }, Go: func(f func()) { looks = append(looks, f) },
	})
	l.use(&codecopy.Tree{})
	for i, want := range []int{1, 1, 1, 1, 2} {
		if i == 3 {
			looks[0]()
			(<-l.inbox)()
		}
		if l.collect(); len(looks) != want {
			t.Errorf("%d looks after %d times, want %d", len(looks), i+1, want)
		}
		now += gatherEvery
	}
}
