package runner

import (
	"os"
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
func jobEnviron(base []string, j *jobspec.Job, r jobspec.Rendered, a identity, g gpu.Grant, indexed bool) []string {
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
	soft := []string{"PYTHONUNBUFFERED=1", "MASTER_PORT=" + strconv.Itoa(a.port)}
	if j.Spec.CPUsGiven {
		soft = append(soft, "OMP_NUM_THREADS="+strconv.Itoa(j.Spec.CPUs))
	}
	return merge(soft, base, r.Env, fixed)
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

// merge lays environments over one another, later ones on top, each name once.
func merge(layers ...[]string) []string {
	n := 0
	for _, l := range layers {
		n += len(l)
	}
	at := make(map[string]int, n)
	env := make([]string, 0, n)
	for _, l := range layers {
		for _, kv := range l {
			name, _, _ := strings.Cut(kv, "=")
			if i, ok := at[name]; ok {
				env[i] = kv
				continue
			}
			at[name] = len(env)
			env = append(env, kv)
		}
	}
	return env
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
