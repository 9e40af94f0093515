package keeper

import (
	"testing"
	"time"
)

// A caller that waits for a child gets its end. All other children are orphans.
func TestReaperSeparatesOrphans(t *testing.T) {
	orphans := map[int]end{}
	r := newReaper(func(ends []end) {
		for _, e := range ends {
			orphans[e.PID] = e
		}
	})
	p, _ := command(t, "exit 3")
	own, exit, err := r.start(p)
	if err != nil {
		t.Fatal(err)
	}
	p, _ = command(t, "exit 4")
	other, err := p.start()
	if err != nil {
		t.Fatal(err)
	}
	if !r.ours(own.PID) || r.ours(other.PID) {
		t.Error("ours is wrong about a child that was started here, or one that was not")
	}
	for deadline := time.Now().Add(time.Minute); len(exit) == 0 || orphans[other.PID].PID == 0; time.Sleep(time.Millisecond) {
		if r.reap(); time.Now().After(deadline) {
			t.Fatal("after a minute, a child that has ended is not reaped")
		}
	}
	if e := <-exit; e.status.ExitStatus() != 3 || r.ours(own.PID) {
		t.Errorf("got end %v, want exit status 3", e)
	}
	e := orphans[other.PID]
	if e.status.ExitStatus() != 4 || e.ID != other || e.session != other.PID || orphans[own.PID].PID != 0 {
		t.Errorf("got orphans %v, want only %d, with exit status 4", orphans, other.PID)
	}
}

// reaping reaps the children of this process until the test ends.
func reaping(t *testing.T, r *reaper) {
	stop, stopped := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(stopped)
		for {
			select {
			case <-stop:
				return
			case <-time.After(time.Millisecond):
				r.reap()
			}
		}
	}()
	t.Cleanup(func() { close(stop); <-stopped })
}

// Even if programs that exit immediately are started in parallel, every status must arrive, and no
// child may count as an orphan.
func TestReaperMissesNoQuickEnd(t *testing.T) {
	r := newReaper(func(ends []end) {
		for _, e := range ends {
			if e.session == e.PID { // orphans of other tests are in their own session
				t.Errorf("a child counts as an orphan: %v", e)
			}
		}
	})
	reaping(t, r)
	const n = 200
	codes := make(chan int, n)
	for range n {
		p, _ := command(t, "exit 7")
		go func() {
			_, exit, err := r.start(p)
			if err != nil {
				t.Error(err)
				codes <- -1
				return
			}
			codes <- (<-exit).status.ExitStatus()
		}()
	}
	for range n {
		if got := <-codes; got != 7 {
			t.Errorf("exit status %d, want 7", got)
		}
	}
	if len(r.want) > 0 {
		t.Errorf("%d children are still waited for", len(r.want))
	}
}
