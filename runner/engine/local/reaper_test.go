package local

import (
	"sync/atomic"
	"testing"

	"gpurun/runner/engine/local/procs"
	"gpurun/runner/engine/local/spawn"
)

// TestEndedBeforeItWasKnown has a child end while its starter still waits for it to
// execute its program: its status is kept, and it is not treated as an orphan.
func TestEndedBeforeItWasKnown(t *testing.T) {
	const pid = 1 << 30 // no process has it
	r := &reaper{want: map[int]chan end{}, extra: map[int]bool{}}
	b := &birth{exit: make(chan end, 1), over: make(chan struct{})}
	b.pid.Store(pid)
	r.births = append(r.births, b)
	if !r.ours(pid) || r.ours(pid+1) {
		t.Error("a process that is being started is not recognized")
	}
	var orphans []end
	r.orphan = func(ends []end) { orphans = append(orphans, ends...) }
	r.sort([]end{{ID: procs.ID{PID: pid}, status: 3 << 8}, {ID: procs.ID{PID: pid + 1}}})()
	if e := <-b.exit; e.status.ExitStatus() != 3 || !b.ended {
		t.Errorf("got end %v, ended %t", e, b.ended)
	}
	if len(orphans) != 1 || orphans[0].PID != pid+1 {
		t.Errorf("got orphans %v, want only %d", orphans, pid+1)
	}
}

// TestQuickEnds starts programs that end at once, many at a time: every status arrives,
// and nothing remains to be waited for.
func TestQuickEnds(t *testing.T) {
	r := newReaper(false, func([]end) {})
	defer r.stop()
	const n = 200
	var planted atomic.Int32
	codes := make(chan int, n)
	for i := range n {
		go func() {
			_, exit, err := r.start(&spawn.Request{
				Path: "/bin/sh", Argv: []string{"sh", "-c", "exit 7"}, Dir: "/", Files: [3]int{0, 1, 2},
				Begun: marker(t.TempDir(), i%2),
			}, func(spawn.Process) { planted.Add(1) })
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
	r.settle()
	if len(r.want)+len(r.births) > 0 || planted.Load() != n {
		t.Errorf("%d are waited for, %d being started, %d planted", len(r.want), len(r.births), planted.Load())
	}
}
