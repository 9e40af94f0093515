package runner

import (
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"gpurun/jobspec"
	"gpurun/runner/engine"
)

// identity holds the data about an attempt that goes into its job's environment.
type identity struct {
	uniID   string
	attempt int
	port    string
	result  string
}

// jobEnviron returns the variables of a job that differ from base, gpurun's own environment: those
// documented in docs/reference/jobfile.md, then the job file's env. env cannot override the
// variables that select GPUs, which keeps the job off other users' GPUs.
func jobEnviron(base []string, j *jobspec.Job, r jobspec.Rendered, a identity, gpus []string) []string {
	soft := []string{"PYTHONUNBUFFERED=1", "MASTER_PORT=" + a.port, "PET_MASTER_PORT=" + a.port} // torchrun reads only PET_MASTER_PORT
	if j.Spec.CPUsGiven {
		soft = append(soft, "OMP_NUM_THREADS="+strconv.Itoa(j.Spec.CPUs))
	}
	soft = slices.DeleteFunc(soft, func(kv string) bool {
		name, _, _ := strings.Cut(kv, "=")
		return slices.ContainsFunc(base, func(has string) bool { return strings.HasPrefix(has, name+"=") })
	})
	fixed := append(slices.Clip(gpus),
		"GPURUN_JOB="+j.Name,
		"GPURUN_UNI_ID="+a.uniID,
		"GPURUN_ATTEMPT="+strconv.Itoa(a.attempt),
		"GPURUN_RESULT="+a.result,
	)
	return engine.Layered(soft, r.Env, fixed)
}

// Environ returns gpurun's environment for jobs to inherit. It omits the variables that an outer
// gpurun set for its own job. All others come from the user, or apply to every gpurun
// (GPURUN_STATE_DIR).
func Environ() []string {
	return slices.DeleteFunc(os.Environ(), func(kv string) bool {
		name, _, _ := strings.Cut(kv, "=")
		return slices.Contains([]string{"GPURUN_JOB", "GPURUN_UNI_ID", "GPURUN_ATTEMPT", "GPURUN_RESULT"}, name) ||
			strings.HasPrefix(name, "GPURUN_PARAM_")
	})
}

// defaultShell returns the shell for jobs that specify none: bash, set to exit at the first failing
// command or pipeline, or sh if there is no bash. It searches gpurun's own PATH and the usual
// places, because a job's env may set another PATH.
func defaultShell(environ []string) []string {
	for _, dir := range append(filepath.SplitList(engine.Variable(environ, "PATH")), "/bin", "/usr/bin") {
		bash := filepath.Join(dir, "bash")
		if fi, err := os.Stat(bash); filepath.IsAbs(dir) && err == nil && fi.Mode().IsRegular() && fi.Mode()&0o111 != 0 {
			return []string{bash, "-e", "-o", "pipefail", "-c"}
		}
	}
	return []string{"/bin/sh", "-e", "-c"}
}
