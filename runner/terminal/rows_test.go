package terminal

import (
	"strings"
	"testing"
	"time"

	"gpurun/gpu"
	"gpurun/state"
	"gpurun/state/schema"
)

func TestGPURowShowsWhyJobCannotUseIt(t *testing.T) {
	no, busy := false, gpu.Busy
	g := schema.GPU{Fits: &no, Code: &busy, Text: schema.Known("90% busy, limit 30%"), Processes: []schema.Process{{PID: 7, User: schema.Known("bob"), Command: schema.Known("jupyter")}}}
	rows := Layout(Frame{}.OnGPU(&g, nil), 100, 1)
	if got := strings.Join(strings.Fields(Plain(rows[0])), " "); !strings.HasSuffix(got, "bob: jupyter pid 7 90% busy, limit 30%") {
		t.Errorf("the row is %q", got)
	}
	job := schema.Job{Name: "mine", State: state.Running, Attempt: &schema.Attempt{N: 1, UniID: schema.Known("u"), GPUs: []schema.AttemptGPU{{}}}}
	held := gpu.Claimed
	g = schema.GPU{Fits: &no, Code: &held, Text: schema.Known("held by me"), Jobs: []string{"mine"}, Claims: []schema.Claim{{Job: "mine", UniID: schema.Known("u")}}}
	rows = Layout(Frame{}.OnGPU(&g, []*schema.Job{&job}), 100, 9)
	if got := strings.Join(strings.Fields(Plain(strings.Join(rows, "\n"))), " "); !strings.HasSuffix(got, "mine starting") || len(rows) != 1 {
		t.Errorf("got %d rows, want 1 for the job on the GPU: %s", len(rows), got)
	}
	g = schema.GPU{Claims: []schema.Claim{{User: schema.Known("bob"), Job: "his", Since: schema.Time(noon)}}}
	rows = Layout(Frame{Now: noon.Add(48 * time.Hour)}.OnGPU(&g, nil), 100, 9)
	if got := strings.Join(strings.Fields(Plain(strings.Join(rows, "\n"))), " "); !strings.HasSuffix(got, "bob: his since 4 Mar 12:00") {
		t.Errorf("the row of an old claim is %q", got)
	}
}
