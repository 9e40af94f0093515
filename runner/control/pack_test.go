package control

import (
	"encoding/json"
	"fmt"
	"reflect"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"gpurun/gpu"
	"gpurun/state"
	"gpurun/state/schema"
)

// sent returns a reply as the client receives it, and its size in bytes.
func sent(t *testing.T, r Reply) (got Reply, size int) {
	t.Helper()
	r.pack()
	text, err := json.Marshal(r)
	if err == nil {
		err = json.Unmarshal(text, &got)
	}
	if err != nil {
		t.Fatal(err)
	}
	got.unpack()
	slices.SortFunc(got.Status.Jobs, func(a, b *schema.Job) int { return strings.Compare(a.Name, b.Name) })
	return got, len(text)
}

// Jobs with the same file, state and reason share one group of a packed status.
func TestPackedStatusArrivesComplete(t *testing.T) {
	since := time.Date(2026, 11, 22, 12, 0, 0, 0, time.UTC)
	full := func() *schema.Wait {
		return &schema.Wait{Code: "gpu", Text: "needs 40 GiB", Since: &since, Jobs: []string{}, GPUs: []schema.WaitGPU{{Index: 1, UUID: gpu.UUID("GPU-1")}}}
	}
	other := full()
	other.Since = nil
	shared, uni := full(), "20260101t000000-0000000001"
	var jobs []*schema.Job
	for i := range 1000 {
		j := &schema.Job{File: "/a.yaml", Name: fmt.Sprintf("j%04d", i), Key: fmt.Sprintf("%032d", i), State: state.Pending, Wait: shared}
		switch i {
		case 3, 4:
			j.Wait = full()
		case 5:
			j.Wait = other
		case 6:
			j.File = "/b.yaml"
		case 7, 8:
			j.State, j.Wait, j.Cause = state.Blocked, nil, &schema.Cause{Code: state.CauseNeedFailed, Text: "needs a, which failed"}
		case 9:
			j.State, j.Wait, j.Attempt = state.Running, nil, &schema.Attempt{UniID: &uni, N: 1, State: state.Running}
		}
		jobs = append(jobs, j)
	}
	const groups = 4 // the common wait; job 5; job 6; jobs 7 and 8
	r := Reply{Status: &schema.Status{Jobs: jobs}}
	got, size := sent(t, r)
	if !reflect.DeepEqual(got.Status.Jobs, jobs) {
		t.Errorf("got %+v", got.Status.Jobs)
	}
	if r.pack(); len(r.StatusGroups) != groups || size > 80*len(jobs) {
		t.Errorf("got %d groups in %d bytes, want %d in at most %d", len(r.StatusGroups), size, groups, 80*len(jobs))
	}
}

func TestUngroupedStatusIsAccepted(t *testing.T) {
	r := Reply{Status: &schema.Status{Jobs: []*schema.Job{{Name: "a", State: state.Pending}}}}
	if r.unpack(); len(r.Status.Jobs) != 1 || r.Status.Jobs[0].Name != "a" {
		t.Errorf("got %+v", r.Status.Jobs)
	}
	if got, _ := sent(t, Reply{Status: &schema.Status{Jobs: []*schema.Job{{Name: "unselected"}}}}); len(got.Status.Jobs) != 0 {
		t.Errorf("got %+v, want no jobs without a state", got.Status.Jobs)
	}
}

// Packing takes linear time even if every job has its own wait, and so its own group.
func TestPackingTakesLinearTime(t *testing.T) {
	runtime.LockOSThread() // only this thread's CPU time counts: a busy machine interrupts long packing more often
	defer runtime.UnlockOSThread()
	cpu := func() time.Duration {
		var u unix.Rusage
		if err := unix.Getrusage(unix.RUSAGE_THREAD, &u); err != nil {
			t.Fatal(err)
		}
		return time.Duration(u.Utime.Nano() + u.Stime.Nano())
	}
	pack := func(times, n int) (sum time.Duration) {
		for range times {
			r := Reply{Status: &schema.Status{}}
			for i := range n {
				w := &schema.Wait{Code: schema.WaitNeed, Text: "needs prep, which is running, and 1 more", Jobs: []string{"prep", fmt.Sprint("train-", i)}}
				r.Status.Jobs = append(r.Status.Jobs, &schema.Job{File: "/a.yaml", Name: fmt.Sprint("eval-", i), State: state.Pending, Wait: w})
			}
			began := cpu()
			if r.pack(); len(r.StatusGroups) != n {
				t.Fatalf("got %d groups for %d jobs, want one each", len(r.StatusGroups), n)
			}
			sum += cpu() - began
		}
		return sum
	}
	// The kernel counts in ticks, so both calls pack the same number of jobs. Quadratic time would
	// take 20 times as long.
	if few, many := pack(40, 1_000), pack(2, 20_000); many > 6*few {
		t.Errorf("40 × 1,000 groups took %v, 2 × 20,000 took %v", few, many)
	}
}
