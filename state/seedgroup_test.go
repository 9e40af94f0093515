package state

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"gpurun/gpu"
)

// ran adds an attempt of a group to a history.
func ran(h *History, n int, group string, start, end Fact) {
	uni, at := fmt.Sprint("u", n), time.Unix(int64(1000+n), 0)
	start.Kind, start.Time, start.UniID, start.Key, start.SeedGroup = KindStart, at, uni, fmt.Sprint("k", n), group
	end.Kind, end.Time, end.UniID = KindEnd, at, uni
	h.Apply(0, start)
	h.Apply(0, end)
}

// Only the last 20 successes of a group count, and for memory only those with enough readings.
func TestSeedGroupKeepsTheLastSuccesses(t *testing.T) {
	h, name := NewHistory(), SeedGroupName(7, false)
	for i := range 30 {
		end := Fact{State: Succeeded, Seconds: float64(i + 1), PeakMemory: gpu.Bytes(30-i) * gpu.GiB, PeakReadings: 3}
		switch i {
		case 25:
			end.PeakMemory, end.PeakReadings = 70*gpu.GiB, 2
		case 26:
			end.PeakMemory, end.Preallocated = 70*gpu.GiB, true
		case 27:
			end = Fact{State: Failed, ErrorType: ErrExit, Seconds: 999, PeakMemory: 70 * gpu.GiB, PeakReadings: 9}
		}
		ran(h, i, name, Fact{}, end)
	}
	ran(h, 30, SeedGroupName(7, true), Fact{}, Fact{State: Succeeded, Seconds: 999})
	ran(h, 31, "", Fact{}, Fact{State: Succeeded, Seconds: 999})
	f := h.SeedGroup(0, name)
	median, most := f.Took()
	if median != 19*time.Second || most != 27*time.Second || len(f.Seconds) != keptOfGroup {
		t.Errorf("median %v, 90th percentile %v of %v, want 19s and 27s of %d successes", median, most, f.Seconds, keptOfGroup)
	}
	if m, runs := f.Memory(); m != (23*gpu.GiB).Ample() || runs != keptOfGroup || f.Hogs != 1 {
		t.Errorf("memory %s from %d runs, peaks %v, hogs %d", m, runs, f.Peaks, f.Hogs)
	}
	ran(h, 32, name, Fact{Memory: 60 * gpu.GiB}, Fact{State: OOM, ErrorType: ErrOOM, Cause: CauseOOMHost})
	ran(h, 33, name, Fact{Memory: 40 * gpu.GiB}, Fact{State: OOM, ErrorType: ErrOOM})
	if m, _ := f.Memory(); m != (40 * gpu.GiB).Ample() {
		t.Errorf("after an OOM with 40 GiB: %s", m)
	}
	if n := len(h.SeedGroups(0)); n != 2 || h.SeedGroup(1, name) != nil {
		t.Errorf("%d groups, want 2, and none in another ledger", n)
	}
}

func TestOldestSeedGroupsAreForgotten(t *testing.T) {
	h := NewHistory()
	for i := range 10 * keptGroups {
		ran(h, i, SeedGroupName(uint64(i), false), Fact{}, Fact{State: Succeeded, Seconds: 1})
	}
	all := h.SeedGroups(0)
	if n := len(all); n > 2*keptGroups || n < keptGroups {
		t.Errorf("%d groups are kept, want %d to %d", n, keptGroups, 2*keptGroups)
	}
	if all[0].Name != SeedGroupName(10*keptGroups-1, false) || !slices.IsSortedFunc(all, func(a, b SeedGroup) int { return int(b.Ended - a.Ended) }) {
		t.Errorf("groups are not sorted by their last ends; the first is %+v", all[0])
	}
}
