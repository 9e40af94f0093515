package runner

import (
	"os"
	"slices"
	"strconv"
	"strings"

	"gpurun/gpu"
	"gpurun/jobspec"
)

// identity is what the environment of a job says of its attempt.
type identity struct {
	uniID   string
	attempt int
	port    int
	result  string
}

// jobEnviron is a job's whole environment: gpurun's own, then what jobfile.md
// section 2 promises, with the job file's env on top. What says which GPUs the
// job has cannot be overridden: other people's are left alone.
func jobEnviron(base *environ, j *jobspec.Job, r jobspec.Rendered, a identity, g gpu.Grant, indexed bool) []string {
	visible, nvidia := devices(g, indexed)
	fixed := []string{
		"CUDA_VISIBLE_DEVICES=" + visible,
		"NVIDIA_VISIBLE_DEVICES=" + nvidia,
		"CUDA_DEVICE_ORDER=PCI_BUS_ID",
		"GPURUN_JOB=" + j.Name,
		"GPURUN_UNI_ID=" + a.uniID,
		"GPURUN_ATTEMPT=" + strconv.Itoa(a.attempt),
		"GPURUN_RESULT=" + a.result,
	}
	port := strconv.Itoa(a.port)
	soft := []string{"PYTHONUNBUFFERED=1", "MASTER_PORT=" + port, "PET_MASTER_PORT=" + port} // torchrun reads only the last
	if j.Spec.CPUsGiven {
		soft = append(soft, "OMP_NUM_THREADS="+strconv.Itoa(j.Spec.CPUs))
	}
	e := environ{list: make([]string, len(base.list), len(base.list)+len(soft)+len(r.Env)+len(fixed)), at: base.at}
	copy(e.list, base.list) // of which others have their own
	for _, kv := range soft {
		e.put(kv, false)
	}
	for _, kv := range slices.Concat(r.Env, fixed) {
		e.put(kv, true)
	}
	return e.list
}

// devices spells a grant for CUDA: the host's indices where these are sure to
// mean the same devices, else UUIDs; for a CPU job nothing at all.
func devices(g gpu.Grant, indexed bool) (cuda, nvidia string) {
	if len(g.UUIDs) == 0 {
		return "-1", "void"
	}
	names := make([]string, len(g.UUIDs))
	for i, id := range g.UUIDs {
		names[i] = string(id)
		if strings.HasPrefix(names[i], "MIG-") {
			indexed = false
		}
	}
	if indexed {
		for i, n := range g.Indices {
			names[i] = strconv.Itoa(n)
		}
	}
	s := strings.Join(names, ",")
	return s, s
}

// An environ is an environment with each name once. All jobs share what they
// inherit: its names are looked up in a map that is made once.
type environ struct {
	list []string
	at   map[string]int // of what is inherited; the few names behind it are searched
}

func newEnviron(base []string) *environ {
	e := &environ{list: make([]string, 0, len(base)), at: make(map[string]int, len(base))}
	for _, kv := range base {
		name, _, _ := strings.Cut(kv, "=")
		i, ok := e.at[name]
		if !ok {
			i = len(e.list)
			e.at[name], e.list = i, append(e.list, "")
		}
		e.list[i] = kv
	}
	return e
}

// put sets a name; over another value only where that is asked for.
func (e *environ) put(kv string, over bool) {
	name, _, _ := strings.Cut(kv, "=")
	i, ok := e.at[name]
	for j := len(e.at); !ok && j < len(e.list); j++ {
		other, _, _ := strings.Cut(e.list[j], "=")
		i, ok = j, other == name
	}
	switch {
	case !ok:
		e.list = append(e.list, kv)
	case over:
		e.list[i] = kv
	}
}

// Environ is gpurun's own environment as jobs inherit it: without what an outer
// gpurun said of its own job.
func Environ() []string {
	var env []string
	for _, kv := range os.Environ() {
		if !ofOuterJob(kv) {
			env = append(env, kv)
		}
	}
	return env
}

// ofOuterJob says whether an outer gpurun has set it for its job. All other names
// are the user's, or are meant for every gpurun (GPURUN_STATE_DIR).
func ofOuterJob(kv string) bool {
	name, _, _ := strings.Cut(kv, "=")
	switch name {
	case "GPURUN_JOB", "GPURUN_UNI_ID", "GPURUN_ATTEMPT", "GPURUN_RESULT":
		return true
	}
	return strings.HasPrefix(name, "GPURUN_PARAM_")
}
