package bench

import (
	"bytes"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
)

// tiny returns a small bench for tests, which check what it measures, never how long that takes.
func tiny(t *testing.T) *bench {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	t.Setenv("GPURUN_SIM_HERE", "1")
	t.Setenv("GPURUN_CLAIMS_DIR", t.TempDir())
	return &bench{TB: t, self: self, gpurun: self, rounds: 1, jobs: 10, few: 20, many: 40, handOvers: 20, serving: 10 * time.Millisecond, progress: io.Discard}
}

func figuresOf(b *bench) (names []string) {
	for _, r := range b.table {
		names = append(names, r.figure)
	}
	return names
}

// The bench fails if any contender skips a job.
func TestThroughputRunsAllJobs(t *testing.T) {
	b := tiny(t)
	b.throughput()
	peers := len(b.contenders(b.jobs)) - 1
	if len(b.table) != peers+1 || !strings.HasPrefix(b.table[peers].figure, "CPU beyond a job's own ") {
		t.Errorf("got %q for %d peers, want a row for each, and one for CPU time", figuresOf(b), peers)
	}
}

func TestFailingRunFailsThroughput(t *testing.T) {
	b := tiny(t)
	b.gpurun = "/bin/true"
	if err := b.race(1, b.contenders(b.jobs)...); err == nil || !strings.Contains(err.Error(), "gpurun ran 0 of 10 jobs") {
		t.Errorf("got %v for a program that runs nothing, want an error that counts the jobs", err)
	}
}

// The server must respond, and a watched run must run all of its jobs.
func TestPageMeasuresAWatchedRun(t *testing.T) {
	b := tiny(t)
	b.page()
	if got := strings.Join(figuresOf(b), ", "); got != "summaries of 20 jobs, run with 100 clients, gpurun web meanwhile" {
		t.Errorf("got %s", got)
	}
}

func TestUpToDateFilesRunNoJobs(t *testing.T) {
	b := tiny(t)
	for _, c := range []*contender{b.upToDate(20), b.withOutputs(20)} {
		if err := b.race(1, c); err != nil {
			t.Fatal(err)
		}
		if began, _ := filepath.Glob(filepath.Join(c.dir, ".gpurun/*/logs/*.log")); len(began) > 0 || len(c.millis) != 1 {
			t.Errorf("%d up-to-date jobs ran again; got %d measurements, want 1", len(began), len(c.millis))
		}
	}
	if _, err := exec.LookPath("ninja"); err != nil {
		t.Skip("ninja is not installed")
	}
	b.built(20)
}

func TestResultsMeasuresTheTable(t *testing.T) {
	b := tiny(t)
	b.results()
	if got := figuresOf(b); len(got) != 1 || got[0] != "results, 20 jobs × 10 metrics" {
		t.Errorf("got %q", got)
	}
	c := b.filled(resultsFile(20))
	c.argv = sh("%q results results.yaml | grep -c '(10)'", b.gpurun)
	if err := b.race(1, c); err != nil { // grep fails unless the table averages over all ten seeds
		t.Error(err)
	}
}

func TestGapIsMeasuredForEachHandOver(t *testing.T) {
	b := tiny(t)
	b.handOvers = 32 // the rivals' 16 jobs can replace at most twice as many hand-overs
	b.gap()
	if got := figuresOf(b); !slices.Equal(got, []string{"idle gap, median", "idle gap, p99"}) {
		t.Errorf("got the rows %q", got)
	}
}

func TestGapBetweenUsersIsMeasured(t *testing.T) {
	b := tiny(t)
	b.handOvers = 4 // a user may run all jobs before the other's first, so only one turn is certain
	b.betweenUsers()
	if got := figuresOf(b); !slices.Equal(got, []string{"between users, median", "between users, p99"}) {
		t.Errorf("got the rows %q", got)
	}
}

func TestReadGapsFromLogs(t *testing.T) {
	dir := t.TempDir()
	for name, text := range map[string]string{
		"a.log": "0 100.5\n0 101.25\n", "b.log": "0 101.5\n0 102\n", "c.log": "1 100\n1 103\n",
	} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o666); err != nil {
			t.Fatal(err)
		}
	}
	if got, err := readGaps(true, dir); err != nil || !slices.Equal(got, series{250}) {
		t.Errorf("got %v, %v; want one gap of 250 ms", got, err)
	}
	other := t.TempDir()
	if err := os.WriteFile(filepath.Join(other, "a.log"), []byte("0 101.375\n0 101.4375\n"), 0o666); err != nil {
		t.Fatal(err)
	}
	if got, err := readGaps(false, dir, other); err != nil || !slices.Equal(got, series{125, 62.5}) {
		t.Errorf("got %v, %v; want the two gaps between the folders", got, err)
	}
	if got, err := readGaps(true, dir, other); err != nil || len(got) > 0 {
		t.Errorf("got %v, %v; want no gap within a folder, since the other's job ran in it", got, err)
	}
	if err := os.WriteFile(filepath.Join(dir, "d.log"), []byte("1 104\n"), 0o666); err != nil {
		t.Fatal(err)
	}
	if _, err := readGaps(true, dir); err == nil {
		t.Error("got no error for a job that did not end")
	}
}

func TestMicrosParsesBenchmarkOutput(t *testing.T) {
	out := []byte("BenchmarkStep/waiting=100-2  \t 2000\t 1340 ns/op\t 335.0 ns/step\t 4 B/op\nBenchmarkStep/waiting=1000000  2000  2186 ns/op  546 ns/step\n")
	for waiting, want := range map[int]float64{100: 0.335, 1_000_000: 0.546} {
		if got, err := micros(out, waiting); err != nil || got != want {
			t.Errorf("waiting=%d: got %v, %v; want %v", waiting, got, err, want)
		}
	}
	if _, err := micros(out, 10); err == nil {
		t.Error("got no error for a missing figure")
	}
}

func TestPercentileOfSeries(t *testing.T) {
	v := series{5, 1, 4, 2, 3}
	for p, want := range map[int]float64{0: 1, 50: 3, 80: 4, 99: 5, 100: 5} {
		if got := v.percentile(p); got != want {
			t.Errorf("percentile %d: got %v, want %v", p, got, want)
		}
	}
}

// A bar that is missed or cannot be judged fails the bench.
func TestMissedBarFailsTheBench(t *testing.T) {
	for _, c := range []struct {
		name string
		rows func(*table)
		met  bool
		says string
	}{
		{"met", func(t *table) { ratio(t, 0.9, "≥", 0.9); ratio(t, 1, "≤", 1) }, true, "met"},
		{"too slow", func(t *table) { ratio(t, 0.89, "≥", 0.9) }, false, "MISSED"},
		{"too much", func(t *table) { ratio(t, 1.01, "≤", 1) }, false, "MISSED"},
		{"under", func(t *table) { t.under("x", "%g ms", 7, 8, " ms") }, true, "< 8 ms"},
		{"not under", func(t *table) { t.under("x", "%g ms", 8, 8, " ms") }, false, "< 8 ms"},
		{"no peer", func(t *table) { t.compare("x", "%g", series{1}, "ninja", nil, "≥", 1) }, false, "ninja is not installed"},
		{"no bar", func(t *table) { ratio(t, 0.1, "", 0) }, true, "x"},
	} {
		var made table
		c.rows(&made)
		var out bytes.Buffer
		if met := made.print(&out); met != c.met || !strings.Contains(out.String(), c.says) {
			t.Errorf("%s: got %v, want %v:\n%s", c.name, met, c.met, out.String())
		}
	}
}

// ratio adds a row that compares a value with a peer's value of 1.
func ratio(t *table, value float64, sign string, bar float64) {
	t.compare("x", "%g", series{value}, "y", series{1}, sign, bar)
}
