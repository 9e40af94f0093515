package sched

import (
	"cmp"
	"fmt"
	"time"

	"gpurun/gpu"
	"gpurun/jobspec"
	"gpurun/state"
)

// usageStats estimates what jobs take by what others took: how much memory is set aside for
// one that does not say, which job is the longest, and how long the rest of the batch takes.
// Jobs that differ only in their seeds are a group, of which the history has the last ends.
type usageStats struct {
	groups   []uint64             // by job: its seed group, 0 if nobody has asked for it; nil at first
	recalled bool                 // seconds has what the history says
	seconds  []float32            // that jobs of this batch took, for those of unknown groups
	commands map[uint64][]float32 // the same by their command
	widths   map[int][]float32    // and by how many GPUs they need
	expected []time.Duration      // by job: what its group takes, 0 if unknown; nil if none is known
	warned   bool                 // some job was reported to take all of a GPU
}

// Unknown is what a job is expected to take if there is nothing to go by.
const Unknown = time.Hour

// maxSeconds bounds how many jobs say what is usual in a batch.
const maxSeconds = 1000

// group returns the hash of a job's seed group.
func (u *usageStats) group(jobs []jobspec.Job, id int32) uint64 {
	if u.groups == nil {
		u.groups = make([]uint64, len(jobs))
	}
	if u.groups[id] == 0 {
		u.groups[id] = jobs[id].SeedGroup()
	}
	return u.groups[id]
}

// took adds what jobs like one took to what is usual.
func (u *usageStats) took(like *jobspec.Spec, seconds ...float32) {
	if u.commands == nil {
		u.commands, u.widths = map[uint64][]float32{}, map[int][]float32{}
	}
	if len(u.seconds) < maxSeconds {
		command, width := like.Template, like.Request.Min
		u.seconds, u.commands[command], u.widths[width] = append(u.seconds, seconds...), append(u.commands[command], seconds...), append(u.widths[width], seconds...)
	}
}

// expect notes what a job's group takes, if anything is known of any job.
func (u *usageStats) expect(id int32, takes time.Duration) {
	if u.expected != nil {
		u.expected[id] = takes
	}
}

// usual returns what is usual in this batch; 0 if that is unknown.
func (u *usageStats) usual() time.Duration { return state.Quantile(u.seconds, 0.5) }

// takes returns what a job that has not started is expected to take, whatever that is
// worth.
func (u *usageStats) takes(id int32) time.Duration {
	if u.expected != nil && u.expected[id] > 0 {
		return u.expected[id]
	}
	return cmp.Or(u.usual(), Unknown)
}

// setAside returns how much memory is set aside on each GPU for a job that does not say what it
// needs, and how many runs of its group say so; 0 if they do not say either. most returns the most
// that any GPU could give, 0 if that is unknown.
func setAside(s *jobspec.Spec, group *state.SeedGroup, most func() gpu.Bytes) (memory gpu.Bytes, runs int) {
	if s.Request.Max == 0 || !s.DefaultMemory && !s.LeastMemory {
		return 0, 0
	}
	if memory, runs = group.Memory(); runs == 0 {
		return 0, 0
	}
	if most := most(); most > 0 {
		memory = min(memory, most)
	}
	if s.LeastMemory && memory <= s.Request.Memory {
		return 0, 0 // its user asked for more
	}
	return memory, runs
}

// hogShare is how much of a GPU, in percent, a job took that had it to itself, if it most
// likely took what it could get: JAX takes three quarters, TensorFlow nearly all.
const hogShare = 70

// hogged returns the warning, once, that nothing is learned from a job which took what it could get,
// or "".
func (u *usageStats) hogged(s *jobspec.Spec, f state.Fact, gpus []int, group *state.SeedGroup) string {
	if !f.Preallocated || f.State != state.Succeeded || group.Hogs > 1 || u.warned || !s.DefaultMemory && !s.LeastMemory {
		return ""
	}
	u.warned = true
	return fmt.Sprintf("%s used %s of %s, a GPU of its own, as JAX and TensorFlow do by default; gpurun learns nothing from it: "+
		"set gpu_memory, or have it allocate as it goes (XLA_PYTHON_CLIENT_PREALLOCATE=false, TF_FORCE_GPU_ALLOW_GROWTH=true)",
		f.Job, f.PeakMemory.Round(), gpuNumbers(gpus))
}
