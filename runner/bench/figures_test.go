package main

import (
	"errors"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"gpurun/jobspec"
	"gpurun/runner/sched"
	"gpurun/state/disk"
)

func TestThroughput(t *testing.T) {
	if testing.Short() {
		t.Skip("starts a few hundred processes")
	}
	b := tiny(t)
	if err := b.throughput(); err != nil {
		t.Fatal(err)
	}
	wantFigures(t, b, "1 throughput", "1 throughput", "1 throughput", "1 throughput", "1 throughput",
		"1 throughput, no records", "1 throughput, no records", "1 throughput, 8 GPUs")
	for i, peer := range []string{"xargs", "ninja", "parallel", "make", "tsp", "xargs", "parallel", "gpurun"} {
		r := b.rows[i]
		if peer == "gpurun" || has(peer) {
			if !strings.HasPrefix(r.peer, peer+" ") || math.IsNaN(r.ratio) || r.ratio <= 0 {
				t.Errorf("%s: got %+v", peer, r)
			}
		} else if r.peer != peer+" is not installed" {
			t.Errorf("%s: got %+v", peer, r)
		}
	}
}

// The loop without records runs each of its shells, and notices what becomes of them.
func TestBareLoop(t *testing.T) {
	path := filepath.Join(t.TempDir(), "ran")
	if err := spawn(5, "echo >>"+path); err != nil {
		t.Fatal(err)
	}
	if text, err := os.ReadFile(path); err != nil || string(text) != "\n\n\n\n\n" {
		t.Errorf("got %q, %v, want 5 lines", text, err)
	}
	if err := spawn(1, "exit 3"); err == nil {
		t.Error("a shell that failed was not noticed")
	}
}

// A run that has lost an end or a log is no run to be measured.
func TestIncompleteRun(t *testing.T) {
	b := tiny(t)
	b.gpurun = filepath.Join(b.dir, "half")
	script := "#!/bin/sh\nmkdir -p .gpurun/jobs.yaml/logs; : > .gpurun/jobs.yaml/logs/j1.log; echo '{\"kind\":\"end\"}' > .gpurun/jobs.yaml/ledger.jsonl\n"
	if err := os.WriteFile(b.gpurun, []byte(script), 0o755); err != nil {
		t.Fatal(err)
	}
	one := b.folder("one")
	if _, err := b.cpuJobs(one, 1); err != nil {
		t.Errorf("one of one: %v", err)
	}
	if _, err := b.cpuJobs(one, 1); !errors.Is(err, errUsed) {
		t.Errorf("once more in the same folder: got %v", err)
	}
	if _, err := b.cpuJobs(b.folder("two"), 2); err == nil || !strings.Contains(err.Error(), "1 ends and 1 logs of 2 jobs") {
		t.Errorf("one of two: got %v", err)
	}
}

func TestCompare(t *testing.T) {
	rate := map[string][]float64{"gpurun": {100, 90, 300}, "xargs": {200, 100, 200}}
	b := quiet()
	b.compare("x", "gpurun", "xargs", rate, 0.7)
	b.compare("x", "gpurun", "xargs", rate, 0)
	b.compare("x", "gpurun", "ninja", rate, 1.1)
	b.compare("x", "gpurun", "tsp", rate, 0)
	want := []row{
		// The median of 0.5, 0.9 and 1.5, not the ratio of the medians, which is 0.5.
		{"1 x", "100 jobs/s", "xargs 200 jobs/s", 0.9, "≥ 0.7", met},
		{"1 x", "100 jobs/s", "xargs 200 jobs/s", 0.9, "", noBar},
		{"1 x", "", "ninja is not installed", nan, "", unmeasured},
		{"1 x", "", "tsp is not installed", nan, "", noBar},
	}
	sameRows(t, b.rows, want)
}

func sameRows(t *testing.T, got, want []row) {
	t.Helper()
	if len(got) != len(want) {
		t.Fatalf("got %+v, want %+v", got, want)
	}
	for i := range want {
		g, w := got[i], want[i]
		if math.IsNaN(g.ratio) && math.IsNaN(w.ratio) {
			g.ratio, w.ratio = 0, 0
		}
		if g != w {
			t.Errorf("got %+v, want %+v", got[i], want[i])
		}
	}
}

// only is the one folder that was made under a name.
func only(t *testing.T, b *bench, name string) string {
	t.Helper()
	dirs, err := filepath.Glob(filepath.Join(b.dir, name+"-*"))
	if err != nil || len(dirs) != 1 {
		t.Fatalf("got the folders %q, %v", dirs, err)
	}
	return dirs[0]
}

func TestNothing(t *testing.T) {
	if testing.Short() {
		t.Skip("starts a dozen processes")
	}
	b := tiny(t)
	if err := b.nothing(); err != nil {
		t.Fatal(err)
	}
	if has("ninja") {
		wantFigures(t, b, "2 no-op, 50 jobs", "2 peak memory of it", "2 no-op, 200 jobs", "2 peak memory of it")
	}
	// What was measured had nothing to do, and has done nothing.
	for name, n := range map[string]int{"2-small": 50, "2-large": 200} {
		path := only(t, b, name) + "/jobs.yaml"
		batch, problems := jobspec.Load([]string{path}, jobspec.Options{})
		if len(problems) > 0 {
			t.Fatal(problems)
		}
		h, warnings, err := disk.Load([]string{batch.Files[0].Real}, disk.Options{})
		if err != nil || len(warnings) > 0 {
			t.Fatal(warnings, err)
		}
		core := sched.New(batch, h, nil, nil, sched.Options{})
		for id := range batch.Jobs {
			if v := core.Verdict(id); v.Run {
				t.Fatalf("%s: %s would run: %s", name, batch.Jobs[id].Name, v.Reason)
			}
		}
		ledger, err := os.ReadFile(filepath.Dir(path) + "/.gpurun/jobs.yaml/ledger.jsonl")
		if lines := strings.Count(string(ledger), "\n"); err != nil || len(batch.Jobs) != n || lines != 3*n+1 {
			t.Errorf("%s: %d jobs and %d lines, %v; want %d and %d", name, len(batch.Jobs), lines, err, n, 3*n+1)
		}
	}
	t.Chdir(b.dir) // fill goes where it fills
	if err := fill(only(t, b, "2-small"), "jobs.yaml", "51"); err == nil {
		t.Error("a file of 50 jobs was filled as one of 51")
	}
}

func TestNothingRows(t *testing.T) {
	c := func(wall time.Duration, rss int64) cost { return cost{wall: wall, rss: rss << 20} }
	ours := []cost{c(200*time.Millisecond, 90), c(100*time.Millisecond, 100), c(900*time.Millisecond, 80)}
	theirs := []cost{c(400*time.Millisecond, 50), c(400*time.Millisecond, 40), c(100*time.Millisecond, 50)}
	tests := []struct {
		name         string
		theirs, most []cost
		want         []verdict
	}{
		{"all met", theirs, []cost{c(2400*time.Millisecond, 1535)}, []verdict{met, met, met, met}},
		{"grows too fast", theirs, []cost{c(2401*time.Millisecond, 1535)}, []verdict{met, met, missed, met}},
		{"too much memory", theirs, []cost{c(time.Second, 1536)}, []verdict{met, met, met, missed}},
		{"ninja is better", []cost{c(199*time.Millisecond, 44)}, []cost{c(time.Second, 1)}, []verdict{missed, missed, met, met}},
		{"no ninja", nil, []cost{c(time.Second, 1)}, []verdict{unmeasured, met, met}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			b := quiet()
			b.nothingRows(ours, tt.theirs, tt.most)
			for i, r := range b.rows {
				if i >= len(tt.want) || r.met != tt.want[i] {
					t.Errorf("got %+v, want %v", b.rows, tt.want)
					break
				}
			}
			if tt.name == "all met" {
				sameRows(t, b.rows, []row{
					{"2 no-op, 100,000 jobs", "200.0 ms", "ninja 400.0 ms", 0.5, "≤ 1", met},
					{"2 peak memory of it", "90 MiB", "ninja 50 MiB", 1.8, "≤ 2", met},
					{"2 no-op, 1,000,000 jobs", "2.40 s", "100,000 jobs 200.0 ms", 12, "≤ 12", met},
					{"2 peak memory of it", "1535 MiB", "", nan, "< 1536 MiB", met},
				})
			}
		})
	}
}

// ninja takes the log that is written here for its own.
func TestBuiltEdges(t *testing.T) {
	if !has("ninja") {
		t.Skip("ninja is not installed")
	}
	dir := t.TempDir()
	if err := builtEdges(dir, 30); err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command("ninja", "-n")
	cmd.Dir = dir
	if out, err := cmd.CombinedOutput(); err != nil || !strings.Contains(string(out), "no work to do") {
		t.Errorf("got %s, %v", out, err)
	}
}

// Taken from a log that ninja 1.11 wrote.
func TestMurmur(t *testing.T) {
	for text, want := range map[string]uint64{"touch o/j0": 0xd7e67ccd8114f85e, "touch o/j12345": 0x1805c0c7dab49783} {
		if got := murmur64a([]byte(text)); got != want {
			t.Errorf("%s: got %x, want %x", text, got, want)
		}
	}
}

func TestGaps(t *testing.T) {
	if testing.Short() {
		t.Skip("takes seconds: its jobs do")
	}
	b := tiny(t)
	if err := b.gaps(); err != nil {
		t.Fatal(err)
	}
	if has("bash") {
		wantFigures(t, b, "3 idle gap, median", "3 idle gap, 99th percentile", "3 the same, slow driver", "3 idle in the 24-job sweep")
	}
}
