// Command bench measures gpurun beside the programs that people would use in its
// place, in one run on one machine, and says which of its bars it meets. Each
// figure is a ratio, the median of rounds in which all take turns: a busy machine
// slows all of them alike. `make bench` runs it.
package main

import (
	"flag"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/dustin/go-humanize"
)

func main() { os.Exit(run(os.Args[1:], os.Stdout, os.Stderr)) }

// run is the whole program; its result is the exit status.
func run(args []string, out, said io.Writer) int {
	if len(args) == 4 && args[0] == fillCommand {
		if err := fill(args[1], args[2], args[3]); err != nil {
			fmt.Fprintln(said, "bench:", err)
			return 1
		}
		return 0
	}
	if len(args) == 2 && args[0] == bareCommand {
		return spawnMain(args[1], said)
	}
	b := newBench(said)
	flags := flag.NewFlagSet("bench", flag.ContinueOnError)
	flags.SetOutput(said)
	only := flags.String("only", "", "measure these figures only: 1,2,3,4,5,6")
	flags.StringVar(&b.gpurun, "gpurun", b.gpurun, "the program to measure")
	flags.IntVar(&b.rounds, "rounds", b.rounds, "rounds of each figure")
	flags.IntVar(&b.jobs, "jobs", b.jobs, "jobs of figure 1")
	flags.IntVar(&b.few, "few", b.few, "jobs of the smaller file of figure 2")
	flags.IntVar(&b.many, "many", b.many, "jobs of the larger file of figure 2")
	flags.IntVar(&b.handOvers, "hand-overs", b.handOvers, "hand-overs of figure 3")
	flags.StringVar(&b.dir, "dir", os.TempDir(), "where a new folder is made for everything, and removed at the end")
	if err := flags.Parse(args); err != nil || flags.NArg() > 0 {
		return 2
	}
	if err := b.measure(*only); err != nil {
		fmt.Fprintln(said, "bench:", err)
		return 1
	}
	return b.report(out)
}

// bench is one run of all figures.
type bench struct {
	began     time.Time
	said      io.Writer // what is being measured now
	gpurun    string
	dir       string
	rounds    int
	jobs      int
	few, many int
	handOvers int
	rows      []row
	notes     []string
}

func newBench(said io.Writer) *bench {
	return &bench{
		began: time.Now(), said: said, gpurun: "bin/gpurun",
		rounds: 3, jobs: 5000, few: 100_000, many: 1_000_000, handOvers: 200,
	}
}

// figures are the parts in their order. Waiting is measured while the others are.
func (b *bench) figures() []figure {
	return []figure{
		{"1", "throughput", b.throughput},
		{"2", "nothing to do", b.nothing},
		{"3", "idle gap", b.gaps},
		{"5", "growth", b.growth},
		{"6", "start-up", b.startUp},
	}
}

type figure struct {
	number, name string
	measure      func() error
}

// choose says which figures are wanted; "" are all.
func choose(only string) (func(number string) bool, error) {
	if only == "" {
		return func(string) bool { return true }, nil
	}
	list := strings.Split(only, ",")
	for _, n := range list {
		if len(n) != 1 || n < "1" || n > "6" {
			return nil, fmt.Errorf("there is no figure %q: say some of 1,2,3,4,5,6", n)
		}
	}
	return func(number string) bool { return slices.Contains(list, number) }, nil
}

func (b *bench) measure(only string) error {
	wanted, err := choose(only)
	if err != nil {
		return err
	}
	if b.gpurun, err = filepath.Abs(b.gpurun); err != nil {
		return err
	}
	program, err := os.Stat(b.gpurun)
	if err != nil {
		return fmt.Errorf("%w: run make build first", err)
	}
	b.progress("measuring " + b.gpurun + ", built " + humanize.Time(program.ModTime()) + " (make build builds it anew)")
	if b.dir, err = newDir(b.dir); err != nil {
		return err
	}
	defer os.RemoveAll(b.dir)
	os.Setenv("GPURUN_SIM_HERE", "1")                  // its jobs use no GPU
	os.Setenv("GPURUN_CLAIMS_DIR", b.folder("claims")) // the machine's own runs are left alone
	var w *waiting
	if wanted("4") {
		if w, err = b.startWaiting(settle); err != nil {
			return err
		}
		defer w.stop()
	}
	for _, f := range b.figures() {
		if !wanted(f.number) {
			continue
		}
		b.progress(f.number + ". " + f.name)
		if err := f.measure(); err != nil {
			return fmt.Errorf("figure %s, %s: %w", f.number, f.name, err)
		}
	}
	if w == nil {
		return nil
	}
	b.progress("4. waiting")
	if err := b.endWaiting(w, leastWaiting); err != nil {
		return err
	}
	return b.snapshots()
}

// progress says on standard error what is being measured now.
func (b *bench) progress(what string) {
	fmt.Fprintf(b.said, "%4.0f s  %s\n", time.Since(b.began).Seconds(), what)
}

// folder makes a folder for one round or one figure. No run was ever in it.
func (b *bench) folder(name string) string {
	dir, err := os.MkdirTemp(b.dir, name+"-")
	if err != nil {
		panic(err) // the temporary folder cannot be used: nothing can be measured
	}
	return dir
}
