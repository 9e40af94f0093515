package runner

import (
	"os"
	"slices"
	"strconv"
	"strings"

	"gpurun/gpu"
	"gpurun/jobspec"
)

// identity is what a job's environment tells it about its attempt.
type identity struct {
	uniID   string
	attempt int
	port    int
	result  string
}

// jobEnviron returns a job's whole environment: gpurun's own, then the variables that
// docs/jobfile.md promises, then the job file's env. The variables that name the job's
// GPUs cannot be overridden, to keep it off other people's.
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
	copy(e.list, base.list) // not shared: each job modifies its own list
	for _, kv := range soft {
		e.put(kv, false)
	}
	for _, kv := range slices.Concat(r.Env, fixed) {
		e.put(kv, true)
	}
	return e.list
}

// devices formats a grant for CUDA: as host indices if they are sure to name the same
// devices, else as UUIDs. A CPU job gets no devices.
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

// An environ is an environment without duplicate names. Jobs share one map of the
// inherited names.
type environ struct {
	list []string
	at   map[string]int // index of inherited names; the few after them are searched linearly
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

// put sets a variable; an existing value is replaced only if over is true.
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

// Environ returns gpurun's own environment as jobs inherit it: without the variables
// that an outer gpurun set for its own job.
func Environ() []string {
	var env []string
	for _, kv := range os.Environ() {
		if !ofOuterJob(kv) {
			env = append(env, kv)
		}
	}
	return env
}

// ofOuterJob reports whether an outer gpurun set kv for its job. All other variables
// are the user's, or meant for every gpurun (GPURUN_STATE_DIR).
func ofOuterJob(kv string) bool {
	name, _, _ := strings.Cut(kv, "=")
	switch name {
	case "GPURUN_JOB", "GPURUN_UNI_ID", "GPURUN_ATTEMPT", "GPURUN_RESULT":
		return true
	}
	return strings.HasPrefix(name, "GPURUN_PARAM_")
}
