package main

import (
	"bytes"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"gpurun/runner/cli"
)

// The test binary is also the program that is measured, with its keeper and probe,
// and the child that fills a ledger.
func TestMain(m *testing.M) {
	if len(os.Args) > 1 && !strings.HasPrefix(os.Args[1], "-test.") {
		if os.Args[1] == fillCommand {
			os.Exit(run(os.Args[1:], os.Stdout, os.Stderr))
		}
		os.Exit(cli.Main(os.Args[1:]))
	}
	os.Exit(m.Run())
}

// tiny is a bench with few of everything: its tests look at what is measured,
// never at how long it took.
func tiny(t *testing.T) *bench {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	t.Setenv("GPURUN_SIM_HERE", "1")
	t.Setenv("GPURUN_CLAIMS_DIR", t.TempDir())
	return &bench{gpurun: self, dir: t.TempDir(), rounds: 1, jobs: 10, few: 20, many: 40, handOvers: 2, progress: io.Discard}
}

func figuresOf(b *bench) (names []string) {
	for _, r := range b.table {
		names = append(names, r.figure)
	}
	return names
}

// The jobs really run: throughput fails if a peer, or gpurun, leaves one out.
func TestThroughput(t *testing.T) {
	b := tiny(t)
	if err := b.throughput(); err != nil {
		t.Fatal(err)
	}
	if len(b.table) != len(b.contenders(b.jobs))-1 {
		t.Errorf("got %d rows for %d peers", len(b.table), len(b.contenders(b.jobs))-1)
	}
}

func TestThroughputOfARunThatFails(t *testing.T) {
	b := tiny(t)
	b.gpurun = "/bin/true"
	if err := b.throughput(); err == nil || !strings.Contains(err.Error(), "gpurun ran 0 of 10 jobs") {
		t.Errorf("got %v for a program that runs nothing", err)
	}
}

func TestNothing(t *testing.T) {
	b := tiny(t)
	c, err := b.upToDate(20)
	if err != nil {
		t.Fatal(err)
	}
	if err := b.race(1, c); err != nil {
		t.Fatal(err)
	}
	if made, _ := filepath.Glob(filepath.Join(c.dir, "o*")); len(made) > 0 || len(c.millis) != 1 {
		t.Errorf("%d jobs of a filled ledger ran again", len(made))
	}
	if _, err := exec.LookPath("ninja"); err != nil {
		t.Skip("ninja is not installed")
	}
	if _, err := b.built(20); err != nil {
		t.Errorf("ninja: %v", err)
	}
}

func TestGap(t *testing.T) {
	b := tiny(t)
	if err := b.gap(); err != nil {
		t.Fatal(err)
	}
	if got := figuresOf(b); !slices.Equal(got, []string{"idle gap, median", "idle gap, p99"}) {
		t.Errorf("got the rows %q", got)
	}
}

func TestReadGaps(t *testing.T) {
	dir := t.TempDir()
	for name, text := range map[string]string{
		"a.log": "0 100.5\n0 101.25\n", "b.log": "0 101.5\n0 102\n", "c.log": "1 100\n1 103\n",
	} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o666); err != nil {
			t.Fatal(err)
		}
	}
	if got, err := readGaps(dir); err != nil || !slices.Equal(got, series{250}) {
		t.Errorf("got %v, %v; want one gap of 250 ms", got, err)
	}
	if err := os.WriteFile(filepath.Join(dir, "d.log"), []byte("1 104\n"), 0o666); err != nil {
		t.Fatal(err)
	}
	if _, err := readGaps(dir); err == nil {
		t.Error("a job that did not end passed")
	}
}

func TestMicros(t *testing.T) {
	out := []byte("BenchmarkStep/waiting=100-2  \t 2000\t 1340 ns/op\t 335.0 ns/step\t 4 B/op\nBenchmarkStep/waiting=1000000  2000  2186 ns/op  546 ns/step\n")
	for waiting, want := range map[int]float64{100: 0.335, 1_000_000: 0.546} {
		if got, err := micros(out, waiting); err != nil || got != want {
			t.Errorf("waiting=%d: got %v, %v; want %v", waiting, got, err, want)
		}
	}
	if _, err := micros(out, 10); err == nil {
		t.Error("found a figure that is not there")
	}
}

func TestPercentile(t *testing.T) {
	v := series{5, 1, 4, 2, 3}
	for p, want := range map[int]float64{0: 1, 50: 3, 80: 4, 99: 5, 100: 5} {
		if got := v.percentile(p); got != want {
			t.Errorf("percentile %d: got %v, want %v", p, got, want)
		}
	}
}

// A bar that is missed, or could not be judged, is exit status 1.
func TestReport(t *testing.T) {
	for _, c := range []struct {
		name string
		rows func(*table)
		code int
		says string
	}{
		{"met", func(t *table) { ratio(t, 0.9, "≥", 0.9); ratio(t, 1, "≤", 1) }, 0, "met"},
		{"too slow", func(t *table) { ratio(t, 0.89, "≥", 0.9) }, 1, "MISSED"},
		{"too much", func(t *table) { ratio(t, 1.01, "≤", 1) }, 1, "MISSED"},
		{"under", func(t *table) { t.under("x", "%g ms", 9, 8, " ms") }, 1, "< 8 ms"},
		{"no peer", func(t *table) { t.compare("x", "%g", series{1}, "ninja", nil, "≥", 1) }, 1, "ninja is not installed"},
		{"no bar", func(t *table) { ratio(t, 0.1, "", 0) }, 0, "x"},
	} {
		var made table
		c.rows(&made)
		var out bytes.Buffer
		if code := made.print(&out); code != c.code || !strings.Contains(out.String(), c.says) {
			t.Errorf("%s: got exit status %d, want %d:\n%s", c.name, code, c.code, out.String())
		}
	}
}

// ratio adds a row for a ratio to a peer of 1.
func ratio(t *table, value float64, sign string, bar float64) {
	t.compare("x", "%g", series{value}, "y", series{1}, sign, bar)
}

func TestUnknownFigure(t *testing.T) {
	var said bytes.Buffer
	if code := run([]string{"-only", "speed"}, io.Discard, &said); code != 1 || !strings.Contains(said.String(), `unknown figure "speed"`) {
		t.Errorf("got exit status %d: %s", code, said.String())
	}
}
