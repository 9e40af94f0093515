package main

import (
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"

	"gpurun/jobspec"
)

func TestParseBench(t *testing.T) {
	got := parseBench(`goos: linux
BenchmarkStep/waiting=100-2         	    2000	      5360 ns/op	      1340 ns/step	      34.00 allocs/op
BenchmarkStep/waiting=1000000-16    	    2000	      8744 ns/op	      2186 ns/step
BenchmarkLoadBipartite707 	2	 40000000 ns/op
BenchmarkOdd-name	2	 1.5e+06 ns/op
BenchmarkCut
PASS
ok  	gpurun/runner/sched	1.2s
`)
	want := map[string]map[string]float64{
		"BenchmarkStep/waiting=100":     {"ns/op": 5360, "ns/step": 1340, "allocs/op": 34},
		"BenchmarkStep/waiting=1000000": {"ns/op": 8744, "ns/step": 2186},
		"BenchmarkLoadBipartite707":     {"ns/op": 4e7},
		"BenchmarkOdd-name":             {"ns/op": 1.5e6},
	}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
}

// What the test in virtual time prints is what is looked for.
func TestCounts(t *testing.T) {
	got := counts.FindAllStringSubmatch("=== RUN\n    w.go:3: snapshots 120, at most 120\n    w.go:4: nothing ready: snapshots 0, at most 0\n", -1)
	if len(got) != 2 || got[0][1] != "120" || got[1][2] != "0" {
		t.Errorf("got %q", got)
	}
	text, err := os.ReadFile("../waiting_test.go")
	if err != nil {
		t.Fatal(err)
	}
	if n := strings.Count(string(text), "snapshots %d, at most %d"); n == 0 {
		t.Error("../waiting_test.go no longer prints its counts like this")
	}
}

func TestSpans(t *testing.T) {
	dir := t.TempDir()
	for name, text := range map[string]string{
		"a.log": "begin 0 100.500000\nend 0 101.000000\n",
		"b.log": "begin 0 101.003000\nend 0 102.000000\n",
		"c.log": "begin 1 101.000000\nend 1 101.100000\n",
		"d.log": "begin 0 102.005000\nend 0 103.000000\n",
	} {
		if err := write(dir, name, text); err != nil {
			t.Fatal(err)
		}
	}
	spans, err := readSpans(dir)
	if err != nil {
		t.Fatal(err)
	}
	if got, want := handOvers(spans), []time.Duration{3 * time.Millisecond, 5 * time.Millisecond}; !reflect.DeepEqual(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
	for _, bad := range []string{"begin 0\n", "begin 0 12x\n", "--- attempt 2, now ---\n", "begin 0 1.000000\n", ""} {
		if err := write(dir, "e.log", bad); err != nil {
			t.Fatal(err)
		}
		if s, err := readSpan(filepath.Join(dir, "e.log")); err == nil {
			t.Errorf("%q: got %+v, want an error", bad, s)
		}
	}
}

// A loop that looks every 30 s loses 15 s a hand-over, give or take; an idle time
// of none loses none.
func TestIdle(t *testing.T) {
	minute := func(i int) time.Duration { return time.Minute + time.Duration(i)*time.Second }
	if got := idle(6, 2, minute, func(end time.Duration) time.Duration { return end }); got != 0 {
		t.Errorf("got %v, want 0", got)
	}
	if got := idle(6, 2, minute, func(end time.Duration) time.Duration { return end + time.Second }); got != 4*time.Second {
		t.Errorf("got %v, want one second for each of four hand-overs", got)
	}
	if got := idle(2, 4, minute, func(end time.Duration) time.Duration { return end + time.Hour }); got != 0 {
		t.Errorf("got %v: nobody waits where there are GPUs enough", got)
	}
	// On one GPU jobs of 60 and 61 s, looked at every 30: the second begins at 90, the third at 180.
	if got := idle(3, 1, minute, func(end time.Duration) time.Duration { return (end/(30*time.Second) + 1) * 30 * time.Second }); got != 30*time.Second+29*time.Second {
		t.Errorf("got %v, want 59s", got)
	}
}

// The sweep is the one of the job file: so many jobs, each on a GPU of its own.
func TestSweepIsTheJobFile(t *testing.T) {
	batch, problems := jobspec.Load([]string{"../../jobs/multi_seed.yaml"}, jobspec.Options{})
	if len(problems) > 0 {
		t.Fatal(problems)
	}
	for i := range batch.Jobs {
		if r := batch.Jobs[i].Spec.Request; r.Min != 1 || r.Share {
			t.Errorf("%s asks for %+v", batch.Jobs[i].Name, r)
		}
	}
	if len(batch.Jobs) != sweepJobs {
		t.Errorf("%d jobs, want %d", len(batch.Jobs), sweepJobs)
	}
}

func TestUsed(t *testing.T) {
	cpu, rss, err := used(os.Getpid())
	if err != nil || cpu < 0 || rss < 1<<20 {
		t.Errorf("got %v, %d, %v", cpu, rss, err)
	}
	if _, _, err := used(1 << 30); err == nil {
		t.Error("a process that is not there has used something")
	}
}
