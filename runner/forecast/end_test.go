package forecast

import (
	"slices"
	"testing"
	"time"

	"gpurun/gpu"
	"gpurun/jobspec"
	"gpurun/runner/sched"
	"gpurun/state"
	"gpurun/state/schema"
)

// Rounding each of thousands of short jobs up to a second would make the forecast far too long.
func TestShortJobsTakeLessThanASecond(t *testing.T) {
	if rest, _ := remaining([]float32{0.02, 0.02}, 0, nil, nil); rest < 19*time.Millisecond || rest > 21*time.Millisecond {
		t.Errorf("a job takes %v, want 20 ms like similar jobs", rest)
	}
	if rest, _ := remaining([]float32{60, 60}, 60*time.Second-time.Millisecond, nil, nil); rest != time.Second {
		t.Errorf("a job at its expected end takes %v more, want 1 s", rest)
	}
}

// rest returns a run whose first job has run for 100 seconds on GPU 0 of two.
func rest(b *jobspec.Batch) *sched.Remaining {
	pool, seen := machine(0, 0)
	b.Files = []jobspec.File{{}}
	b.Settings.Poll, b.Settings.Patience, b.Settings.MinGPUs, b.Settings.MaxGPUs = 5*time.Second, 10*time.Minute, -1, -1
	now := time.Unix(1e9, 0)
	start := state.Fact{Kind: state.KindStart, Time: now.Add(-100 * time.Second), Job: "a", Key: b.Jobs[0].Key.String(), UniID: "u", Attempt: 1, GPUs: []int{0}, GPUUUIDs: []gpu.UUID{"GPU-0"}, Memory: 8 * gpu.GiB}
	return &sched.Remaining{
		Batch: b, Known: make([][]float32, len(b.Jobs)), Open: []state.Attempt{{Start: start, Seq: 1, Running: &state.Fact{PID: 1}}},
		Stalled: map[string]string{}, Pool: pool, Seen: seen, Now: sched.Now{Boot: time.Hour, Wall: now},
	}
}

// Before any job has ended, the progress of running jobs predicts how long waiting jobs take.
func TestProgressPredictsWaitingJobs(t *testing.T) {
	b := &jobspec.Batch{}
	job(b, 1, false)
	job(b, 2, false)
	e := End(rest(b), map[string]float64{"u": 0.5})
	if e == nil || e.From == nil {
		t.Fatalf("got %+v, want a time", e)
	}
	if took := e.From.Sub(time.Unix(1e9, 0)).Seconds(); took < 240 || took > 320 { // 100 s for the running job, then 200 s for the other
		t.Errorf("the run ends in %v s, want about 300", took)
	}
	if e := End(rest(b), nil); e.Unknown == nil || *e.Unknown != "no similar job has ended" {
		t.Errorf("without progress: got %+v, want no estimate", e)
	}
}

// However much the durations vary, the run ends after its hours have opened.
func TestEndIsAfterHoursOpen(t *testing.T) {
	b := &jobspec.Batch{}
	job(b, 1, false)
	r := rest(b)
	r.Open, r.Known[0] = nil, []float32{100, 1000, 4000}
	b.Settings.Hours, _ = gpu.ParseHours("03:00-08:00")
	if opens := time.Unix(1e9, 0).Add(73*time.Minute + 20*time.Second); End(r, nil).From.Before(opens) {
		t.Errorf("got %v, want a time after %v", End(r, nil).From, opens)
	}
}

// The estimate leaves out a stalled job, and jobs that wait for its GPU, and names them.
func TestEndNamesJobsThatItLeavesOut(t *testing.T) {
	b := &jobspec.Batch{}
	job(b, 1, false)
	job(b, 2, false)
	job(b, 1, false)
	r := rest(b)
	r.Stalled["u"] = "a"
	for i := range r.Known {
		r.Known[i] = []float32{60}
	}
	e := End(r, nil)
	if e.From == nil || !slices.Equal(e.Without, []string{"a", "b"}) {
		t.Errorf("got %+v, unknown %v; want a time without a and b", e, schema.Value(e.Unknown))
	}
}
