package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"
)

// A peer runs n jobs, two at a time, in a fresh folder. Every job touches a file
// of its own, as ninja's edges must.
type peer struct {
	name  string
	share int     // runs one of so many jobs: it is slow, and judged by its rate
	bar   float64 // least ratio of gpurun's rate to its rate; 0 for none
	make  func(dir string, n int) command
}

func (b *bench) peers() []peer {
	return []peer{
		{"gpurun", 1, 0, func(dir string, n int) command {
			return command{files: map[string]string{"jobs.yaml": jobFile(n)}, argv: []string{b.gpurun, "run", "jobs.yaml"}}
		}},
		{"ninja", 1, 0.9, func(dir string, n int) command {
			return command{files: map[string]string{"build.ninja": edges("touch $out", n)}, argv: []string{"ninja", "-j2"}}
		}},
		{"parallel", 5, 3, func(dir string, n int) command {
			return command{argv: []string{"parallel", "--will-cite", "-j2", "--joblog", "log", "touch o{}"}, stdin: numbers(n),
				env: []string{"HOME=" + dir, "SHELL=/bin/sh"}}
		}},
		{"xargs", 1, 0, func(dir string, n int) command {
			return command{argv: []string{"xargs", "-P2", "-I{}", "sh", "-c", "touch o{}"}, stdin: numbers(n)}
		}},
	}
}

func (b *bench) throughput() error {
	rate := map[string][]float64{} // jobs a second, by round
	for i := range b.rounds {
		for _, p := range b.peers() {
			if p.name != "gpurun" && !has(p.name) {
				continue
			}
			dir, n := b.folder(p.name), max(b.jobs/p.share, 1)
			c := p.make(dir, n)
			c.dir = dir
			took, err := c.measure()
			if err != nil {
				return err
			}
			if made, _ := filepath.Glob(filepath.Join(dir, "o*")); len(made) != n {
				return fmt.Errorf("%s ran %d of %d jobs", p.name, len(made), n)
			}
			rate[p.name] = append(rate[p.name], float64(n)/took.wall.Seconds())
			fmt.Fprintf(b.progress, "  round %d: %-8s %6.0f jobs/s\n", i+1, p.name, rate[p.name][i])
			os.RemoveAll(dir)
		}
	}
	for _, p := range b.peers()[1:] {
		if len(rate[p.name]) == 0 {
			b.unmeasured("throughput", p.name)
			continue
		}
		b.compareRates(p, rate["gpurun"], rate[p.name])
	}
	return nil
}

func (b *bench) compareRates(p peer, ours, theirs []float64) {
	ratios := make([]float64, len(ours))
	for i := range ratios {
		ratios[i] = ours[i] / theirs[i]
	}
	mine, other := fmt.Sprintf("%.0f jobs/s", median(ours)), fmt.Sprintf("%s %.0f jobs/s", p.name, median(theirs))
	if p.bar == 0 {
		b.rows = append(b.rows, row{figure: "throughput", ours: mine, peer: other, ratio: fmt.Sprintf("%.2f", median(ratios))})
		return
	}
	b.ratio("throughput", mine, other, median(ratios), "≥", p.bar)
}

// jobFile is a job file of n CPU jobs, the commands of ninja's edges.
func jobFile(n int) string {
	return fmt.Sprintf("settings: {max_concurrent: 2}\njobs:\n  - {name: \"j{i}\", matrix: {i: 1..%d}, run: \"touch o{i}\", gpus: 0, shell: [sh, -c]}\n", n)
}

// edges is a ninja file of n edges that share one command.
func edges(command string, n int) string {
	var s strings.Builder
	fmt.Fprintf(&s, "rule t\n command = %s\n", command)
	for i := range n {
		fmt.Fprintf(&s, "build o%d: t\n", i+1)
	}
	return s.String()
}

func numbers(n int) string {
	var s strings.Builder
	for i := range n {
		s.WriteString(strconv.Itoa(i+1) + "\n")
	}
	return s.String()
}

func millis(d time.Duration) string { return fmt.Sprintf("%.1f ms", float64(d)/1e6) }
