package runner

import (
	"slices"
	"strings"
	"testing"
)

func TestWhatJobsInherit(t *testing.T) {
	for kv, want := range map[string]bool{
		"GPURUN_JOB=outer": false, "GPURUN_UNI_ID=u": false, "GPURUN_ATTEMPT=2": false, "GPURUN_RESULT=/r": false, "GPURUN_PARAM_SEED=1": false,
		"GPURUN_DEMO=fail": true, "GPURUN_CLAIMS_DIR=/c": true, "GPURUN_JOBS=3": true, "SEED=1": true,
	} {
		name, value, _ := strings.Cut(kv, "=")
		t.Setenv(name, value)
		if got := slices.Contains(Environ(), kv); got != want {
			t.Errorf("%s: inherited %v, want %v", kv, got, want)
		}
	}
}
