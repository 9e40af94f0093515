package spawn

import (
	"testing"

	"golang.org/x/sys/unix"
)

// attributes returns how a process is scheduled. It skips the test if the kernel has no
// time slices.
func attributes(t *testing.T, pid int) unix.SchedAttr {
	t.Helper()
	a, err := unix.SchedGetAttr(pid, 0)
	if err != nil {
		t.Fatal(err)
	}
	if a.Runtime == 0 {
		t.Skip("no time slices before Linux 6.12")
	}
	return *a
}

// The slice is the one that was asked for; niceness and policy are the parent's.
func TestSlice(t *testing.T) {
	own := attributes(t, 0)
	for _, slice := range []uint64{0, 5_000_000} {
		r, _ := request(t, "kill -STOP $$")
		r.Slice = slice
		p, err := Start(r)
		if err != nil {
			t.Fatal(err)
		}
		want := own
		if slice != 0 {
			want.Runtime = slice
		}
		if got := attributes(t, p.PID); got != want {
			t.Errorf("slice %d: got %+v, want %+v", slice, got, want)
		}
		unix.Kill(p.PID, unix.SIGKILL)
		wait(t, p.PID)
	}
}

func TestFairPolicies(t *testing.T) {
	for policy, want := range map[uint32]bool{
		unix.SCHED_NORMAL: true, unix.SCHED_BATCH: true, unix.SCHED_IDLE: true,
		unix.SCHED_FIFO: false, unix.SCHED_RR: false, unix.SCHED_DEADLINE: false,
	} {
		if a := (schedAttr{policy: policy}); a.fair() != want {
			t.Errorf("policy %d: got %v", policy, !want)
		}
	}
}
