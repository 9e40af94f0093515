// Command bench measures gpurun beside the programs that people would use in its
// place, in one run on one machine, and says which of its bars it meets. Each
// figure is a ratio, the median of rounds in which all take turns: a busy machine
// slows all of them alike. `make bench` runs it.
package main

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

func main() { os.Exit(run()) }

// run is the whole program; its result is the exit status.
func run() int {
	if len(os.Args) == 5 && os.Args[1] == fillCommand {
		if err := fill(os.Args[2], os.Args[3], os.Args[4]); err != nil {
			fmt.Fprintln(os.Stderr, "bench:", err)
			return 1
		}
		return 0
	}
	b := &bench{began: time.Now()}
	only := flag.String("only", "", "measure these figures only: 1,2,3,4,5,6")
	flag.StringVar(&b.gpurun, "gpurun", "bin/gpurun", "the program to measure")
	flag.IntVar(&b.rounds, "rounds", 3, "rounds of each figure")
	flag.IntVar(&b.jobs, "jobs", 5000, "jobs of figure 1")
	flag.IntVar(&b.many, "many", 1_000_000, "jobs of the largest file of figure 2")
	flag.StringVar(&b.dir, "dir", "", "folder for everything that is made (default: a new one in $TMPDIR)")
	flag.Parse()
	if err := b.measure(*only); err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
		return 1
	}
	return b.report(os.Stdout)
}

// bench is one run of all figures.
type bench struct {
	began  time.Time
	gpurun string
	dir    string
	rounds int
	jobs   int
	many   int
	rows   []row
	notes  []string
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

func (b *bench) measure(only string) error {
	var err error
	if b.gpurun, err = filepath.Abs(b.gpurun); err != nil {
		return err
	}
	if _, err := os.Stat(b.gpurun); err != nil {
		return fmt.Errorf("%w: run make build first", err)
	}
	if b.dir == "" {
		if b.dir, err = os.MkdirTemp("", "gpurun-bench-"); err != nil {
			return err
		}
		defer os.RemoveAll(b.dir)
	}
	os.Setenv("GPURUN_CLAIMS_DIR", b.folder("claims")) // the machine's own runs are left alone
	wanted := func(n string) bool { return only == "" || slices.Contains(strings.Split(only, ","), n) }
	var w *waiting
	if wanted("4") {
		if w, err = b.startWaiting(); err != nil {
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
	if w != nil {
		return b.endWaiting(w)
	}
	return nil
}

// progress says on standard error what is being measured now.
func (b *bench) progress(what string) {
	fmt.Fprintf(os.Stderr, "%4.0f s  %s\n", time.Since(b.began).Seconds(), what)
}

// folder makes a new folder of that name.
func (b *bench) folder(name string) string {
	dir := filepath.Join(b.dir, name)
	if err := os.MkdirAll(dir, 0o777); err != nil {
		panic(err) // the temporary folder cannot be used: nothing can be measured
	}
	return dir
}
