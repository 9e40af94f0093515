// Package timeslice lets this process take short turns on a processor, so that it
// gets one at once when something happens: what a thread is due stays the same, but
// one that asks for little at a time need not wait until another's turn is over. A
// runner with its keeper works some 0.2 milliseconds for each job, and until then
// the job's GPU, or its core, is idle.
//
// Each thread has a time slice of its own and hands it on to those that it makes:
// only a constructor comes before all of Go's, and without cgo all stays as it was.
// Linux has such slices since 6.12 (sched_setattr(2), sched_runtime; the scheduler's
// feature PREEMPT_SHORT); before, and for a process that is not to be scheduled as
// most are (chrt --batch, say), nothing is changed either.
package timeslice

import "golang.org/x/sys/unix"

// Original is the time slice that this process was started with, in nanoseconds,
// for the programs that it starts; 0 where it was not changed.
func Original() uint64 { return original() }

// Restore gives the calling thread, and so the programs that it starts, the time
// slice that this process was started with.
func Restore() {
	n := Original()
	if n == 0 {
		return
	}
	a, err := unix.SchedGetAttr(0, 0)
	if err != nil {
		return
	}
	a.Runtime = n
	_ = unix.SchedSetAttr(0, a, 0) // cannot fail: the thread had it
}
