package runner

import (
	"context"
	"testing"
	"time"

	"gpurun/jobspec"
	"gpurun/runner/codecopy"
	"gpurun/runner/sched"
)

// Settling moves files from a code copy to the work dir. It begins once no attempt uses the copy,
// and new attempts in the copy wait for it.
func TestStartWaitsForSettle(t *testing.T) {
	var looks []func()
	now := time.Hour
	l := newLoop(context.Background(), Config{
		Batch: &jobspec.Batch{}, Now: func() sched.Now { return sched.Now{Boot: now} }, Go: func(f func()) { looks = append(looks, f) },
	})
	code := &codecopy.Tree{Dir: t.TempDir(), Root: t.TempDir(), Items: nil}
	l.Code = []*codecopy.Tree{code}
	for i, step := range []struct {
		by   int
		want int
	}{{1, 0}, {1, 0}, {-1, 0}, {-1, 1}, {0, 1}} {
		l.use(code, step.by)
		now += settleEvery
		if l.settle(false); len(looks) != step.want {
			t.Errorf("got %d settles after %d steps, want %d", len(looks), i+1, step.want)
		}
	}
	if code.TryLock() {
		t.Error("an attempt can start while its copy is being settled")
	}
	looks[0]()
	(<-l.inbox)()
	if !code.TryLock() {
		t.Error("the copy is still locked after it was settled")
	}
}
