package keeper

import (
	"testing"
	"time"

	"gpurun/runner/engine/procs"
)

// A caller that waits for a child gets its end. All other children are orphans.
func TestReaperSeparatesOrphans(t *testing.T) {
	const pid = 1 << 30 // no process has it
	var orphans []end
	r := newReaper(func(ends []end) { orphans = append(orphans, ends...) })
	exit := make(chan end, 1)
	r.want[pid] = exit
	if !r.ours(pid) || r.ours(pid+1) {
		t.Error("ours is wrong about a child that was started here, or one that was not")
	}
	r.sort([]end{{ID: procs.ID{PID: pid}, status: 3 << 8}, {ID: procs.ID{PID: pid + 1}}})()
	if e := <-exit; e.status.ExitStatus() != 3 {
		t.Errorf("got end %v, want exit status 3", e)
	}
	if len(orphans) != 1 || orphans[0].PID != pid+1 {
		t.Errorf("got orphans %v, want only %d", orphans, pid+1)
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
