// Command bench measures gpurun beside the programs that people use instead, in
// one run on one machine, and reports which bars it meets. Peers take turns in
// rounds, and each ratio is the median of the rounds' ratios: a busy machine slows
// all of them alike. `make bench` runs it; docs/performance.md has the figures.
package main

import (
	"flag"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"time"
)

func main() { os.Exit(run(os.Args[1:], os.Stdout, os.Stderr)) }

// A bench is one run of all figures.
type bench struct {
	gpurun    string // the program to measure
	dir       string // everything is made below it
	rounds    int
	jobs      int // of the throughput figure
	few, many int // jobs of the two files with nothing to do
	handOvers int // of the idle gap
	progress  io.Writer
	table     table
}

// figures are measured in this order.
var figures = []struct {
	name    string
	measure func(*bench) error
}{
	{"throughput", (*bench).throughput},
	{"no-op", (*bench).nothing},
	{"gap", (*bench).gap},
	{"step", (*bench).step},
	{"start-up", (*bench).startUp},
	{"waiting", (*bench).waiting},
}

// run is the whole program; its result is the exit status: 1 when a bar is missed.
func run(args []string, out, progress io.Writer) int {
	if len(args) == 2 && args[0] == fillCommand {
		return fail(fill(args[1]), progress)
	}
	b := &bench{rounds: 3, jobs: 5000, few: 100_000, many: 1_000_000, handOvers: 200, progress: progress}
	flags := flag.NewFlagSet("bench", flag.ContinueOnError)
	flags.SetOutput(progress)
	flags.StringVar(&b.gpurun, "gpurun", "bin/gpurun", "the program to measure")
	flags.IntVar(&b.rounds, "rounds", b.rounds, "rounds of each figure")
	flags.StringVar(&b.dir, "dir", os.TempDir(), "where the bench makes its folder, and removes it")
	only := flags.String("only", "", "measure this figure alone: throughput, no-op, gap, step, start-up or waiting")
	if err := flags.Parse(args); err != nil {
		return 2
	}
	began := time.Now()
	if err := b.measure(*only); err != nil {
		return fail(err, progress)
	}
	fmt.Fprintf(out, "\n%s, %d cores, load %s, Linux %s; %.0f s in all\n\n", began.Format("2006-01-02 15:04"), runtime.NumCPU(),
		word("/proc/loadavg"), word("/proc/sys/kernel/osrelease"), time.Since(began).Seconds())
	return b.table.print(out)
}

func fail(err error, progress io.Writer) int {
	if err == nil {
		return 0
	}
	fmt.Fprintln(progress, "bench:", err)
	return 1
}

// word is the first word of a file.
func word(path string) string {
	text, _ := os.ReadFile(path)
	first, _, _ := strings.Cut(strings.TrimSpace(string(text)), " ")
	return first
}

func (b *bench) measure(only string) (err error) {
	if b.gpurun, err = filepath.Abs(b.gpurun); err != nil {
		return err
	}
	if b.dir, err = os.MkdirTemp(b.dir, "gpurun-bench-"); err != nil {
		return err
	}
	defer os.RemoveAll(b.dir)
	os.Setenv("GPURUN_SIM_HERE", "1")                  // its jobs use no GPU
	os.Setenv("GPURUN_CLAIMS_DIR", b.folder("claims")) // keeps away from this machine's own runs
	known := false
	for _, f := range figures {
		if only != "" && only != f.name {
			continue
		}
		known = true
		fmt.Fprintln(b.progress, f.name)
		if err := f.measure(b); err != nil {
			return fmt.Errorf("%s: %w", f.name, err)
		}
	}
	if !known {
		return fmt.Errorf("unknown figure %q (see -help)", only)
	}
	return nil
}
