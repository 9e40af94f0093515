package gpu

import "testing"

// Memory and utilization of a run's own processes, including those that just ended, are left out.
func TestWithoutLeavesOutOwnUse(t *testing.T) {
	busy := []Sample{{Percent: 80}}
	o := Observation{Readings: []Reading{
		{Used: 9 * GiB, Total: 24 * GiB, Free: 15 * GiB, Listed: true, Samples: busy, Processes: []Process{{Attempt: "a", Memory: 9 * GiB}}},
		{Total: 24 * GiB, Free: 24 * GiB, Listed: true, Samples: busy}, // the job has just ended
		{Used: 5 * GiB, Total: 24 * GiB, Free: 19 * GiB, Listed: true, Samples: busy, Processes: []Process{{User: "bob", Memory: 5 * GiB}}},
		{Total: 24 * GiB, Free: 24 * GiB, Samples: busy}, // processes unknown
	}}
	w := o.Without(func(p *Process) bool { return p.Attempt != "" })
	for i, want := range []struct {
		used    Bytes
		samples int
	}{{0, 0}, {0, 0}, {5 * GiB, 1}, {0, 1}} {
		if r := w.Readings[i]; r.Used != want.used || r.Free != r.Total-want.used || len(r.Samples) != want.samples {
			t.Errorf("GPU %d: got %+v, want %+v", i, r, want)
		}
	}
	if o.Readings[0].Used != 9*GiB || len(o.Readings[1].Samples) == 0 {
		t.Error("Without changed the observation itself")
	}
}
