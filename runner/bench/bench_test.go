// Package bench compares gpurun with the programs that people use instead, in one run on one
// machine, and reports which bars it meets. Programs take turns in rounds, and each ratio is the
// median of the rounds' ratios, because a busy machine slows all of them equally. `make bench` runs
// it; docs/internals/performance.md has the results.
package bench

import (
	"flag"
	"fmt"
	"io"
	"os"
	"runtime"
	"strings"
	"testing"
	"time"

	"gpurun/runner/cli"
)

var (
	measured = flag.String("gpurun", "", "the program to measure")
	rounds   = flag.Int("rounds", 3, "rounds of each figure")
)

// The test binary also acts as the gpurun that the bench's own tests measure, including its keeper
// and probe, and as the child that fills a ledger.
func TestMain(m *testing.M) {
	switch {
	case len(os.Args) < 2 || strings.HasPrefix(os.Args[1], "-"):
		os.Exit(m.Run())
	case os.Args[1] == wholeCommand:
		os.Exit(whole(os.Args[2:]))
	case os.Args[1] != fillCommand:
		os.Exit(cli.Main(os.Args[1:]))
	}
	if err := fill(os.Args[2]); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// A bench is one run of all figures.
type bench struct {
	testing.TB        // test of the figure being measured
	self       string // this program
	gpurun     string // the program to measure
	rounds     int    // of each figure
	jobs       int    // of the throughput figure
	few, many  int    // jobs in the two files whose jobs are up to date
	handOvers  int    // number of hand-overs for the idle gap
	serving    time.Duration
	progress   io.Writer // progress messages for users
	table      table
}

// figures are measured in this order.
var figures = []struct {
	name    string
	measure func(*bench)
}{
	{"throughput", (*bench).throughput},
	{"no-op", (*bench).nothing},
	{"results", (*bench).results},
	{"gap", (*bench).gap},
	{"between users", (*bench).betweenUsers},
	{"step", (*bench).step},
	{"start-up", (*bench).startUp},
	{"waiting", (*bench).waiting},
	{"page", (*bench).page},
}

// TestFigures is the bench. It fails if a bar is missed or could not be judged.
func TestFigures(t *testing.T) {
	if *measured == "" {
		t.Skip("no -gpurun to measure (run make bench)")
	}
	t.Setenv("GPURUN_SIM_HERE", "1")           // jobs of the bench use no GPU
	t.Setenv("GPURUN_CLAIMS_DIR", t.TempDir()) // do not disturb this machine's own runs
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	b := &bench{self: self, gpurun: *measured, rounds: *rounds, jobs: 5000, few: 100_000, many: 1_000_000, handOvers: 200, serving: 5 * time.Second, progress: os.Stderr}
	began := time.Now()
	for _, f := range figures {
		t.Run(f.name, func(t *testing.T) {
			fmt.Fprintln(b.progress, f.name)
			b.TB = t
			f.measure(b)
		})
	}
	fmt.Printf("\n%s, %d cores, load %s, Linux %s; %.0f s in all\n\n", began.Format("2006-01-02 15:04"), runtime.NumCPU(),
		word("/proc/loadavg"), word("/proc/sys/kernel/osrelease"), time.Since(began).Seconds())
	if !b.table.print(os.Stdout) {
		t.Error("a bar was missed or could not be judged")
	}
}

// word returns the first word of a file.
func word(path string) string {
	text, _ := os.ReadFile(path)
	first, _, _ := strings.Cut(strings.TrimSpace(string(text)), " ")
	return first
}

// must ends the figure if it cannot be measured.
func (b *bench) must(err error) {
	b.Helper()
	if err != nil {
		b.Fatal(err)
	}
}
