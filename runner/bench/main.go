// Command bench measures gpurun beside the programs that people use instead, in
// one run on one machine, and reports which bars it meets. Peers take turns in
// rounds, and each ratio is the median of the rounds' ratios: a busy machine slows
// all of them alike. `make bench` runs it; docs/performance.md has the figures.
package main

import (
	"cmp"
	"flag"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"text/tabwriter"
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
	rows      []row
}

// A row is one line of the table.
type row struct{ figure, ours, peer, ratio, bar, verdict string }

// figures are measured in this order. Waiting comes first: it goes on while the
// others are measured.
var figures = []struct {
	name    string
	measure func(*bench) error
}{
	{"throughput", (*bench).throughput},
	{"no-op", (*bench).nothing},
	{"gap", (*bench).gap},
	{"step", (*bench).step},
	{"start-up", (*bench).startUp},
}

// run is the whole program; its result is the exit status: 1 when a bar is missed.
func run(args []string, out, progress io.Writer) int {
	if len(args) == 2 && args[0] == fillCommand {
		return exit(fill(args[1]), progress)
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
		return exit(err, progress)
	}
	fmt.Fprintf(out, "\n%s, %d cores, load %s, Linux %s; %.0f s in all\n\n", began.Format("2006-01-02 15:04"), runtime.NumCPU(),
		word("/proc/loadavg"), word("/proc/sys/kernel/osrelease"), time.Since(began).Seconds())
	return b.report(out)
}

func exit(err error, progress io.Writer) int {
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
	known := only == "" || only == "waiting"
	var w *waiting
	if known {
		if w, err = b.startWaiting(); err != nil {
			return err
		}
		defer w.stop()
	}
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
	if w != nil {
		return b.endWaiting(w)
	}
	return nil
}

// folder makes a fresh folder.
func (b *bench) folder(name string) string {
	dir, err := os.MkdirTemp(b.dir, name+"-")
	if err != nil {
		panic(err) // without a folder nothing can be measured
	}
	return dir
}

// judge adds a row. Below bar is good when atMost, above it otherwise.
func judge[T cmp.Ordered](b *bench, r row, value T, atMost bool, bar T) {
	r.verdict = "met"
	if (atMost && value > bar) || (!atMost && value < bar) {
		r.verdict = "MISSED"
	}
	b.rows = append(b.rows, r)
}

// ratio adds a row for a ratio that must be at least, or at most, the bar.
func (b *bench) ratio(figure, ours, peer string, value float64, sign string, bar float64) {
	r := row{figure: figure, ours: ours, peer: peer, ratio: fmt.Sprintf("%.2f", value), bar: fmt.Sprintf("%s %.3g", sign, bar)}
	judge(b, r, value, sign == "≤", bar)
}

// under adds a row for a value that has no peer.
func under[T cmp.Ordered](b *bench, figure, text string, value, bar T, barText string) {
	judge(b, row{figure: figure, ours: text, bar: "< " + barText}, value, true, bar)
}

// unmeasured adds a row for a figure whose peer is not installed.
func (b *bench) unmeasured(figure, peer string) {
	b.rows = append(b.rows, row{figure: figure, peer: peer + " is not installed", verdict: "not measured"})
}

// report prints the table; 1 when a bar is missed or could not be judged.
func (b *bench) report(to io.Writer) (code int) {
	w := tabwriter.NewWriter(to, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "figure\tours\tpeer\tratio\tbar\t")
	for _, r := range b.rows {
		fmt.Fprintln(w, strings.Join([]string{r.figure, r.ours, r.peer, r.ratio, r.bar, r.verdict}, "\t"))
		if r.verdict != "met" && r.verdict != "" {
			code = 1
		}
	}
	w.Flush()
	return code
}
