package runner

import (
	"slices"
	"strings"
	"testing"

	"gpurun/gpu"
	"gpurun/jobspec"
	"gpurun/runner/engine"
)

func TestJobsInheritOnlyUserEnvironment(t *testing.T) {
	for kv, want := range map[string]bool{
		"GPURUN_JOB=outer": false, "GPURUN_UNI_ID=u": false, "GPURUN_ATTEMPT=2": false, "GPURUN_RESULT=/r": false, "GPURUN_PARAM_SEED=1": false,
		"GPURUN_DEMO=fail": true, "GPURUN_CLAIMS_DIR=/c": true, "GPURUN_JOBS=3": true, "SEED=1": true,
	} {
		name, value, _ := strings.Cut(kv, "=")
		t.Setenv(name, value)
		if got := slices.Contains(Environ(), kv); got != want {
			t.Errorf("%s: got inherited %v, want %v", kv, got, want)
		}
	}
}

// The job file overrides the inherited environment, which overrides gpurun's defaults. Nothing
// overrides the variables that select GPUs. No name occurs twice, and no job gets another job's
// variables.
func TestEnvironmentPrecedence(t *testing.T) {
	base := []string{"A=1", "PYTHONUNBUFFERED=no", "odd", "A=2", "B=1", "CUDA_VISIBLE_DEVICES=0"}
	environ := func(env ...string) []string {
		e := engine.Layered(base, jobEnviron(base, &jobspec.Job{Name: "j", Spec: &jobspec.Spec{}}, jobspec.Rendered{Env: env}, identity{"u", 2, "7", "/r"}, gpu.Grant{}.Environ(true)))
		slices.Sort(e)
		return e
	}
	gpurun := []string{
		"CUDA_DEVICE_ORDER=PCI_BUS_ID", "CUDA_VISIBLE_DEVICES=-1", "GPURUN_ATTEMPT=2", "GPURUN_JOB=j", "GPURUN_RESULT=/r",
		"GPURUN_UNI_ID=u", "MASTER_PORT=7", "NVIDIA_VISIBLE_DEVICES=void", "PET_MASTER_PORT=7", "PYTHONUNBUFFERED=no", "odd",
	}
	tests := []struct {
		env, want []string
	}{
		{nil, []string{"A=2", "B=1"}},
		{[]string{"B=3", "C=4", "C=5", "CC=6", "CUDA_VISIBLE_DEVICES=0"}, []string{"A=2", "B=3", "C=5", "CC=6"}},
		{nil, []string{"A=2", "B=1"}}, // the previous job's variables are gone
	}
	for _, tt := range tests {
		if got, want := environ(tt.env...), append(tt.want, gpurun...); !slices.Equal(got, want) {
			t.Errorf("%v:\n got %q\nwant %q", tt.env, got, want)
		}
	}
}
