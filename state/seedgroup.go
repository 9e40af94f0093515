package state

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"gpurun/gpu"
)

// A SeedGroup is what the ends of jobs that differ only in their seeds say of the next.
type SeedGroup struct {
	Name    string
	Ended   int64       // of the last end, Unix time
	Seconds []float32   // that the last successes took, oldest first
	Peaks   []gpu.Bytes // of GPU memory on one device, those that say something
	Short   gpu.Bytes   // the most that was promised to one that ran out of memory
	Hogs    int         // successes that took nearly all of a GPU because they were alone there
}

// How much is remembered: what the last of a group took, and the groups that ended last.
// A batch whose jobs all differ must not make the history large.
const (
	keptOfGroup = 20
	keptGroups  = 2048
)

// How much it takes to learn the memory of a group: jobs, and readings of each, as a
// short job may have been read before it took the most.
const (
	LearnFrom     = 3
	learnReadings = 3
)

// SeedGroupName names a group in facts, apart from others that ran on simulated GPUs.
func SeedGroupName(hash uint64, simulated bool) string {
	if simulated {
		return fmt.Sprintf("%016x sim", hash)
	}
	return fmt.Sprintf("%016x", hash)
}

// addToSeedGroup adds an end to its group.
func (h *History) addToSeedGroup(ledger int, start, end *Fact) {
	short := end.ErrorType == ErrOOM && end.Uncharged == "" && start.Memory > 0 // and nobody else is to blame
	if start.SeedGroup == "" || !short && (end.State != Succeeded || end.Seconds <= 0) {
		return
	}
	f := h.seedGroups[ledgerKey{ledger, start.SeedGroup}]
	if f == nil {
		f = &SeedGroup{Name: strings.Clone(start.SeedGroup)} // the rest of the ledger's line is not kept
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
	case end.PeakMemory == start.Memory: // it took what it was told, as jobs on simulated GPUs do
	case end.PeakMemory > 0 && end.PeakReadings >= learnReadings:
		f.Peaks = last(append(f.Peaks, end.PeakMemory))
	}
	f.Seconds = last(append(f.Seconds, float32(end.Seconds)))
}

func last[T any](list []T) []T {
	return slices.Delete(list, 0, max(0, len(list)-keptOfGroup))
}

// forgetSeedGroups forgets those that ended first, once there are twice too many.
func (h *History) forgetSeedGroups() {
	if len(h.seedGroups) <= 2*keptGroups {
		return
	}
	all := make([]ledgerKey, 0, len(h.seedGroups))
	for at := range h.seedGroups {
		all = append(all, at)
	}
	slices.SortFunc(all, func(a, b ledgerKey) int {
		x, y := h.seedGroups[a], h.seedGroups[b]
		return cmp.Or(cmp.Compare(y.Ended, x.Ended), cmp.Compare(a.ledger, b.ledger), strings.Compare(a.text, b.text))
	})
	for _, at := range all[keptGroups:] {
		delete(h.seedGroups, at)
	}
}

// SeedGroup returns what is known of a group in one ledger, or nil.
func (h *History) SeedGroup(ledger int, name string) *SeedGroup {
	return h.seedGroups[ledgerKey{ledger, name}]
}

// SeedGroups returns what is known of all groups in one ledger, the last that ended first.
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

// SetSeedGroups sets what a ledger's index knows of groups.
func (h *History) SetSeedGroups(ledger int, groups []SeedGroup) {
	for i := range groups {
		h.seedGroups[ledgerKey{ledger, groups[i].Name}] = &groups[i]
	}
}

// Took returns how long a job of the group takes: the median, and what nine of ten do not
// exceed; 0 if that is unknown.
func (f *SeedGroup) Took() (median, most time.Duration) {
	if f == nil {
		return 0, 0
	}
	return Quantile(f.Seconds, 0.5), Quantile(f.Seconds, 0.9)
}

// Quantile returns the least of some durations in seconds that a part of them does not
// exceed; 0 for none.
func Quantile(seconds []float32, part float64) time.Duration {
	if len(seconds) == 0 {
		return 0
	}
	sorted := slices.Sorted(slices.Values(seconds))
	at := int(math.Ceil(part*float64(len(sorted)))) - 1
	return time.Duration(float64(sorted[max(at, 0)]) * float64(time.Second))
}

// Memory returns the memory to reserve on each GPU for a job of the group, and the number of runs
// it is based on; 0 if there are too few.
func (f *SeedGroup) Memory() (memory gpu.Bytes, runs int) {
	if f == nil || len(f.Peaks) < LearnFrom {
		return 0, 0
	}
	return max(slices.Max(f.Peaks).Ample(), f.Short), len(f.Peaks)
}
