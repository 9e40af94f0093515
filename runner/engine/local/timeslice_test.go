package local

import (
	"testing"

	"golang.org/x/sys/unix"

	"gpurun/runner/engine/local/timeslice"
)

// Jobs take turns as long as those of what started gpurun, not the short ones of gpurun's own.
func TestTimeSlicesOfJobs(t *testing.T) {
	own, err := unix.SchedGetAttr(0, 0)
	if err != nil || own.Runtime == 0 {
		t.Skip("no time slices here: ", err)
	}
	want := own.Runtime
	if before := timeslice.Original(); before > 0 {
		if want >= before {
			t.Errorf("the slice is %d ns, and was %d ns", want, before)
		}
		want = before
	}
	s := newScene(t, "read x <fifo")
	s.start()
	job, err := unix.SchedGetAttr(s.run.PID, 0)
	s.goOn()
	s.ended()
	if err != nil || job.Runtime != want {
		t.Errorf("got %+v, %v, want a slice of %d ns", job, err, want)
	}
}
