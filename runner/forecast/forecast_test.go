package forecast

import (
	"fmt"
	"testing"
	"time"

	"gpurun/gpu"
	"gpurun/jobspec"
	"gpurun/runner/sched"
	"gpurun/state"
)

// machine returns a pool of 24 GiB GPUs, and a reading in which other users hold the given amounts.
func machine(used ...gpu.Bytes) (*gpu.Pool, gpu.Observation) {
	var devs []gpu.Device
	seen := gpu.Observation{At: time.Hour}
	for i, u := range used {
		d := gpu.Device{Index: i, UUID: gpu.UUID(fmt.Sprint("GPU-", i)), Name: "Test", Total: 24 * gpu.GiB}
		devs = append(devs, d)
		r := gpu.Reading{UUID: d.UUID, Total: d.Total, Free: d.Total - u, Used: u, Listed: true}
		if u > 0 {
			r.Processes = []gpu.Process{{PID: 1, UID: 1001, User: "bob", Memory: u}}
		}
		seen.Readings = append(seen.Readings, r)
	}
	pool := gpu.NewPool(devs, gpu.Rules{MinGPUs: -1, MaxGPUs: -1, Pick: gpu.FirstFit, UID: 1000, Poll: 5 * time.Second, AtOnce: true})
	pool.Observe(seen)
	return pool, seen
}

func simulateJobs(b *jobspec.Batch, h *state.History, pool *gpu.Pool, seen gpu.Observation, minutes ...int) *Forecast {
	b.Files = []jobspec.File{{}}
	b.Settings.Poll, b.Settings.Patience, b.Settings.MinGPUs, b.Settings.MaxGPUs = 5*time.Second, 10*time.Minute, -1, -1
	core := sched.New(b, h, sched.Options{})
	core.Use(pool)
	return Simulate(Config{
		Batch: b, Core: core, Pool: pool, Seen: seen, Now: sched.Now{Boot: time.Hour, Wall: time.Unix(1e9, 0)},
		Takes: func(id int) time.Duration { return time.Duration(minutes[id]) * time.Minute },
	})
}

func job(b *jobspec.Batch, gpus int, share bool, needs ...int32) {
	id := len(b.Jobs)
	s := &jobspec.Spec{When: jobspec.OnSuccess, Request: gpu.Request{Min: gpus, Max: gpus, Memory: 8 * gpu.GiB, MaxUtil: 100, Share: share}}
	if gpus == 0 {
		s.Request = gpu.Request{}
	}
	b.Jobs = append(b.Jobs, jobspec.Job{ID: id, Name: string(rune('a' + id)), Key: jobspec.Key{byte(id + 1)}, Spec: s, Needs: needs, Queue: -1})
}

func (f *Forecast) words() (s string) {
	for _, y := range f.Spans {
		s += fmt.Sprintf("%c%v %v-%v ", 'a'+y.Job, y.GPUs, y.Start.Minutes(), y.End.Minutes())
	}
	return s
}

// Jobs start on free GPUs, after the jobs they need, and share a GPU if they allow that.
func TestForecastSchedulesLikeARun(t *testing.T) {
	b := &jobspec.Batch{}
	job(b, 1, false)
	job(b, 1, false)
	job(b, 2, false, 0)
	job(b, 0, false, 2)
	pool, seen := machine(0, 0)
	f := simulateJobs(b, state.NewHistory(), pool, seen, 10, 20, 5, 1)
	if got := f.words(); got != "a[0] 0-10 b[1] 0-20 c[0 1] 20-25 d[] 25-26 " {
		t.Error(got)
	}
	if f.Wall != 26*time.Minute || f.GPUTime != 40*time.Minute || f.Bound() != 20*time.Minute || f.Never != 0 {
		t.Errorf("%+v, bound %v", f, f.Bound())
	}

	b = &jobspec.Batch{}
	for range 4 {
		job(b, 1, true)
	}
	pool, seen = machine(0)
	f = simulateJobs(b, state.NewHistory(), pool, seen, 10, 10, 10, 10)
	if got := f.words(); got != "a[0] 0-10 b[0] 0-10 c[0] 0-10 d[0] 10-20 " {
		t.Error(got)
	}
	if f.GPUTime != 20*time.Minute || f.Work != 40*time.Minute/3 {
		t.Errorf("%+v", f)
	}
}

// A job never starts if it needs a GPU that others use.
func TestForecastLeavesOthersGPUsAlone(t *testing.T) {
	b := &jobspec.Batch{}
	job(b, 2, false)
	job(b, 1, false)
	job(b, 1, false, 0)
	pool, seen := machine(20*gpu.GiB, 0)
	f := simulateJobs(b, state.NewHistory(), pool, seen, 10, 10, 10)
	if got := f.words(); got != "b[1] 0-10 " || f.Never != 2 || f.Why == "" {
		t.Errorf("got %s, %d never start: %s", got, f.Never, f.Why)
	}
}

func TestRunningJobTakesItsRemainingTime(t *testing.T) {
	b := &jobspec.Batch{}
	job(b, 1, false)
	job(b, 1, false)
	for _, tt := range []struct{ key, want string }{
		{b.Jobs[1].Key.String(), "b[0] 0-6 a[0] 6-16 "},
		{"gone from the file", "`[0] 0-56 a[0] 56-66 b[0] 66-76 "}, // it takes an hour
	} {
		h := state.NewHistory()
		h.Apply(0, state.Fact{Kind: state.KindStart, Time: time.Unix(1e9, 0).Add(-4 * time.Minute), UniID: "u", Key: tt.key, Job: "x", GPUs: []int{0}, GPUUUIDs: []gpu.UUID{"GPU-0"}, Memory: 8 * gpu.GiB})
		pool, seen := machine(0)
		f := simulateJobs(b, h, pool, seen, 10, 10)
		if got := f.words(); got != tt.want || !f.Spans[0].Running {
			t.Errorf("%s: got %s, want %s", tt.key, got, tt.want)
		}
	}
}

// Hours that close while a job waits, the run's or the host's, open again. The forecast begins at 01:46:40.
func TestForecastWaitsForHours(t *testing.T) {
	for _, tt := range []struct{ run, host, want string }{
		{"03:00-04:00", "", "a[0] 73.3-103.3 b[0] 103.3-113.3 "},
		{"", "03:00-04:00", "a[0] 73.3-103.3 b[0] 103.3-113.3 "},
		{"01:00-02:00", "", "a[0] 0.0-30.0 b[0] 1393.3-1403.3 "},
		{"", "01:00-02:00", "a[0] 0.0-30.0 b[0] 1393.3-1403.3 "},
		{"02:00-04:00", "03:00-03:30", "a[0] 73.3-103.3 b[0] 1513.3-1523.3 "},
	} {
		b := &jobspec.Batch{}
		job(b, 1, false)
		job(b, 1, false)
		hours, err := gpu.ParseHours(tt.host)
		if tt.host != "" && err != nil {
			t.Fatal(err)
		}
		b.Settings.Hours, _ = gpu.ParseHours(tt.run)
		pool, seen := machine(0)
		seen.Host = gpu.NoHostRules()
		seen.Host.At, seen.Host.Hours = time.Unix(1e9, 0).UTC(), []gpu.DeviceHours{{Devices: []string{"0"}, Hours: hours}}
		pool.Observe(seen)
		got := ""
		for _, s := range simulateJobs(b, state.NewHistory(), pool, seen, 30, 10).Spans {
			got += fmt.Sprintf("%c%v %.1f-%.1f ", 'a'+s.Job, s.GPUs, s.Start.Minutes(), s.End.Minutes())
		}
		if got != tt.want {
			t.Errorf("run %q, host %q: got %s, want %s", tt.run, tt.host, got, tt.want)
		}
	}
}

// The simulation skips readings that show nothing new, so weeks take seconds. The skipped readings
// must not leave GPUs idle.
func TestLongForecastKeepsGPUsBusy(t *testing.T) {
	b, minutes := &jobspec.Batch{}, []int{}
	for i := range 2000 {
		job(b, 1, false)
		b.Jobs[i].Key = jobspec.Key{byte(i), byte(i >> 8), 1}
		minutes = append(minutes, 30+i%60)
	}
	pool, seen := machine(0, 0, 0, 0)
	f := simulateJobs(b, state.NewHistory(), pool, seen, minutes...)
	if len(f.Spans) != 2000 || f.Wall > f.Bound()*101/100 {
		t.Errorf("got %d starts in %v, want 2000 in hardly more than %v", len(f.Spans), f.Wall, f.Bound())
	}
}
