package state

import (
	"cmp"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"
	"time"

	"gpurun/gpu"
)

// A SeedGroup summarizes the ended jobs that differ only in their seeds, to predict the next ones.
type SeedGroup struct {
	Name    string
	Ended   int64       // Unix time of the last end
	Seconds []float32   // durations of the last successes, oldest first
	Peaks   []gpu.Bytes // peak GPU memory on one device, where the readings are meaningful
	Short   gpu.Bytes   // the most GPU memory reserved for a job of the group that ran out of it
	Hogs    int         // successes that filled nearly a whole GPU because they were alone on it
}

// These limit what is kept: the number of successes in a group, and the number of groups. Otherwise,
// a batch whose jobs all differ would make the history large.
const (
	keptOfGroup = 20
	keptGroups  = 2048
)

// The memory that a group needs is known after LearnFrom jobs with at least learnReadings readings
// each. With fewer readings, a short job may have ended before any of them showed its peak.
const (
	LearnFrom     = 3
	learnReadings = 3
)

// SeedGroupName returns a group's name in facts. Jobs on simulated GPUs have groups of their own.
func SeedGroupName(hash uint64, simulated bool) string {
	if simulated {
		return fmt.Sprintf("%016x sim", hash)
	}
	return fmt.Sprintf("%016x", hash)
}

// addToSeedGroup adds an attempt's end to its group.
func (h *History) addToSeedGroup(ledger int, start, end *Fact) {
	short := end.ErrorType == ErrOOM && end.Cause != CauseOOMHost && end.Uncharged == "" && start.Memory > 0 // no other process is to blame
	if start.SeedGroup == "" || !short && (end.State != Succeeded || end.Seconds <= 0) {
		return
	}
	f := h.seedGroups[ledgerKey{ledger, start.SeedGroup}]
	if f == nil {
		f = &SeedGroup{Name: strings.Clone(start.SeedGroup)} // cloned to release the rest of the ledger's line
		h.seedGroups[ledgerKey{ledger, f.Name}] = f
	}
	f.Ended = end.Time.Unix()
	h.forgetSeedGroups()
	switch {
	case short:
		f.Short = max(f.Short, start.Memory)
		return
	case end.Preallocated:
		f.Hogs++
	case end.PeakMemory == start.Memory: // it reported exactly what it was granted, as jobs on simulated GPUs do
	case end.PeakMemory > 0 && end.PeakReadings >= learnReadings:
		f.Peaks = last(append(f.Peaks, end.PeakMemory))
	}
	f.Seconds = last(append(f.Seconds, float32(end.Seconds)))
}

func last[T any](list []T) []T {
	return slices.Delete(list, 0, max(0, len(list)-keptOfGroup))
}

// forgetSeedGroups drops the groups that ended first, once there are more than twice keptGroups.
func (h *History) forgetSeedGroups() {
	if len(h.seedGroups) <= 2*keptGroups {
		return
	}
	all := slices.SortedFunc(maps.Keys(h.seedGroups), func(a, b ledgerKey) int {
		x, y := h.seedGroups[a], h.seedGroups[b]
		return cmp.Or(cmp.Compare(y.Ended, x.Ended), cmp.Compare(a.ledger, b.ledger), strings.Compare(a.text, b.text))
	})
	for _, at := range all[keptGroups:] {
		delete(h.seedGroups, at)
	}
}

// SeedGroup returns a group in one ledger, or nil.
func (h *History) SeedGroup(ledger int, name string) *SeedGroup {
	return h.seedGroups[ledgerKey{ledger, name}]
}

// SeedGroups returns all groups in one ledger, sorted by their last ends, newest first.
func (h *History) SeedGroups(ledger int) []SeedGroup {
	var all []SeedGroup
	for at, f := range h.seedGroups {
		if at.ledger == ledger {
			all = append(all, *f)
		}
	}
	slices.SortFunc(all, func(a, b SeedGroup) int {
		return cmp.Or(cmp.Compare(b.Ended, a.Ended), strings.Compare(a.Name, b.Name))
	})
	return all
}

// SetSeedGroups sets the groups that a ledger's index contains.
func (h *History) SetSeedGroups(ledger int, groups []SeedGroup) {
	for i := range groups {
		h.seedGroups[ledgerKey{ledger, groups[i].Name}] = &groups[i]
	}
}

// Took returns how long jobs of the group take: the median and the 90th percentile. Both are 0 if
// unknown.
func (f *SeedGroup) Took() (median, most time.Duration) {
	if f == nil {
		return 0, 0
	}
	return Quantile(f.Seconds, 0.5), Quantile(f.Seconds, 0.9)
}

// Quantile returns a quantile of some durations given in seconds, or 0 if there are none.
func Quantile(seconds []float32, part float64) time.Duration {
	if len(seconds) == 0 {
		return 0
	}
	sorted := slices.Sorted(slices.Values(seconds))
	at := int(math.Ceil(part*float64(len(sorted)))) - 1
	return time.Duration(float64(sorted[max(at, 0)]) * float64(time.Second))
}

// Memory returns the memory to reserve on each GPU for a job of the group, and the number of runs
// that it is based on. Both are 0 if there are too few runs.
func (f *SeedGroup) Memory() (memory gpu.Bytes, runs int) {
	if f == nil || len(f.Peaks) < LearnFrom {
		return 0, 0
	}
	return max(slices.Max(f.Peaks), f.Short).Ample(), len(f.Peaks)
}
