package batches

import (
	"os"
	"strings"
	"testing"

	"gpurun/gpu"
	"gpurun/state"
	"gpurun/state/schema"
)

func TestMemoryAdviceIsForTheFirstOfEqualEntries(t *testing.T) {
	t.Chdir(t.TempDir())
	t.Setenv("XDG_CONFIG_HOME", t.TempDir())
	text := "jobs: [{name: a, run: x, gpu_memory: 20GiB}, {name: b, run: x b, gpu_memory: 30GiB}, {name: c, run: x c, gpu_memory: 40GiB}]\n"
	text = strings.ReplaceAll(text, "}, {", "},\n  {")
	if err := os.WriteFile("jobs.yaml", []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
	b, err := (&Reader{}).Reload(nil, "jobs.yaml")
	if err != nil {
		t.Fatal(err)
	}
	h := state.NewHistory()
	for _, j := range b.Jobs {
		h.Apply(0, state.Fact{Kind: state.KindEnd, Key: j.Key.String(), Job: j.Name, State: state.Succeeded, PeakMemory: gpu.GiB, PeakReadings: 10})
	}
	p := &runLog{ref: &Ref{Batch: b, History: h}}
	for range 20 {
		var u schema.BatchUsage
		if p.adviseMemory(&u); len(u.Advice) != 1 || !strings.HasPrefix(u.Advice[0], "1 job requested 20") {
			t.Fatalf("got %q, want the advice for a", u.Advice)
		}
	}
}
