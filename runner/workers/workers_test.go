package workers

import (
	"testing"
	"testing/synctest"
)

// Run never waits for a worker, idle workers are reused, and all of them end.
func TestPool(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		started := 0
		done := make(chan struct{})
		p := New(func(f func()) { started++; go f() }, done)
		hold := make(chan struct{})
		ran := make(chan int, 10)
		for i := range 3 {
			p.Run(func() { <-hold; ran <- i })
		}
		close(hold)
		synctest.Wait()
		for i := range 3 {
			p.Run(func() { ran <- 3 + i })
		}
		synctest.Wait()
		if len(ran) != 6 || started != 3 {
			t.Errorf("%d of 6 ran, by %d workers; want 3", len(ran), started)
		}
		close(done)
		synctest.Wait()
		p.Run(func() { ran <- 6 })
		synctest.Wait()
		if len(ran) != 7 {
			t.Error("what comes after the end did not run")
		}
	})
}
