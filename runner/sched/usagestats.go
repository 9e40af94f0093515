package sched

import (
	"fmt"
	"time"

	"gpurun/gpu"
	"gpurun/jobspec"
	"gpurun/state"
)

// usageStats estimates jobs' memory and duration from past jobs: how much memory to reserve for a
// job without gpu_memory, which job takes longest, and how long the rest of the batch takes. Jobs
// that differ only in their seeds form a group, whose last ends are in the history.
type usageStats struct {
	groups   []uint64             // by job: its seed group, 0 until it is needed; nil at first
	recalled bool                 // seconds includes the history
	seconds  []float32            // durations of this batch's jobs, for jobs of unknown groups
	commands map[uint64][]float32 // the same, by command
	widths   map[int][]float32    // the same, by number of GPUs
	warned   bool                 // the user was warned about a job that took all of a GPU
}

// Unknown is the estimated duration of a job without an estimate.
const Unknown = time.Hour

// maxSeconds bounds the durations kept for a batch.
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

// took records the durations of jobs that are like the given one, except for their seeds.
func (u *usageStats) took(like *jobspec.Spec, seconds ...float32) {
	if len(u.seconds) < maxSeconds {
		command, width := like.Template, like.Request.Min
		u.seconds, u.commands[command], u.widths[width] = append(u.seconds, seconds...), append(u.commands[command], seconds...), append(u.widths[width], seconds...)
	}
}

// usual returns the median duration in this batch; 0 if unknown.
func (u *usageStats) usual() time.Duration { return state.Quantile(u.seconds, 0.5) }

// setAside returns the memory to reserve on each GPU for a job without gpu_memory, and the number
// of runs of its group that it is based on. Both are 0 if there are too few runs. most returns the
// most memory that any GPU could offer, or 0 if that is unknown.
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

// hogShare is the percentage of a GPU above which a job alone on it most likely allocated whatever
// it could get: JAX takes three quarters, TensorFlow nearly all.
const hogShare = 70

// hogged returns a warning that nothing is learned from a job that allocated all free memory; "" if
// the job did not, or if hogged has returned a warning before.
func (u *usageStats) hogged(s *jobspec.Spec, f state.Fact, gpus []int, group *state.SeedGroup) string {
	if !f.Preallocated || f.State != state.Succeeded || group.Hogs > 1 || u.warned || !s.DefaultMemory && !s.LeastMemory {
		return ""
	}
	u.warned = true
	return fmt.Sprintf("%s allocated all free memory (%s of %s), as JAX and TensorFlow do by default, so gpurun cannot tell how much it needs: "+
		"set gpu_memory, or turn preallocation off (XLA_PYTHON_CLIENT_PREALLOCATE=false, TF_FORCE_GPU_ALLOW_GROWTH=true)",
		f.Job, f.PeakMemory.Round(), gpuNumbers(gpus))
}
