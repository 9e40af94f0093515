package main

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
)

func cores() int { return runtime.NumCPU() }

// A racer runs n jobs that do nothing in a fresh folder.
type racer struct {
	name    string
	program string // which must be installed
	share   int    // runs one of so many jobs: it is slow, and judged by its rate
	run     func(dir string, n int) (cost, error)
}

// throughput is figure 1: jobs of ":", two at a time.
func (b *bench) throughput() error {
	racers := []racer{
		{"xargs", "xargs", 1, xargs},
		{"gpurun", b.gpurun, 1, b.cpuJobs},
		{"gpurun --sim", b.gpurun, 1, b.gpuJobs},
		{"ninja", "ninja", 1, ninja},
		{"make", "make", 1, makeJobs},
		{"parallel", "parallel", 5, parallel},
		{"a bare loop", "sh", 1, bare},
		{"tsp", "tsp", 10, spooler},
	}
	rate := map[string][]float64{} // jobs a second, by round
	for i := range b.rounds {
		for _, r := range racers {
			if !has(r.program) {
				continue
			}
			n := max(b.jobs/r.share, 1)
			c, err := r.run(b.folder(fmt.Sprintf("1-%d-%s", i+1, strings.ReplaceAll(r.name, " ", ""))), n)
			if err != nil {
				return err
			}
			rate[r.name] = append(rate[r.name], float64(n)/c.wall.Seconds())
			b.progress(fmt.Sprintf("   round %d: %-12s %6.0f jobs/s, cpu %.2f s", i+1, r.name, float64(n)/c.wall.Seconds(), c.cpu.Seconds()))
		}
	}
	b.compare("throughput", "gpurun", "xargs", rate, 0.7)
	b.compare("throughput", "gpurun", "ninja", rate, 1.1)
	b.compare("throughput", "gpurun", "parallel", rate, 6)
	b.compare("throughput", "gpurun", "make", rate, 0)
	b.compare("throughput", "gpurun", "tsp", rate, 0)
	b.compare("throughput, no records", "a bare loop", "xargs", rate, 0)
	b.compare("throughput, no records", "a bare loop", "parallel", rate, 0)
	b.compare("throughput, 8 GPUs", "gpurun --sim", "gpurun", rate, 0.7)
	return nil
}

// compare adds a row for the median of the rounds' ratios; without a bar it is only shown.
func (b *bench) compare(figure, ours, peer string, rate map[string][]float64, bar float64) {
	figure = "1 " + figure
	switch {
	case len(rate[peer]) > 0:
	case bar == 0:
		b.shown(figure, "", peer+" is not installed", nan)
		return
	default:
		b.missing(figure, peer)
		return
	}
	ratios := make([]float64, len(rate[peer]))
	for i := range ratios {
		ratios[i] = rate[ours][i] / rate[peer][i]
	}
	mine := fmt.Sprintf("%.0f jobs/s", median(rate[ours]))
	other := fmt.Sprintf("%s %.0f jobs/s", peer, median(rate[peer]))
	if bar == 0 {
		b.shown(figure, mine, other, median(ratios))
		return
	}
	b.atLeast(figure, mine, other, median(ratios), bar)
}

// jobFile is n jobs that do nothing.
func jobFile(n, gpus, atOnce int) string {
	return fmt.Sprintf(`settings: {max_concurrent: %d}
jobs:
  - name: "j{i}"
    matrix: {i: 1..%d}
    run: ":"
    gpus: %d
    shell: [sh, -c]
`, atOnce, n, gpus)
}

func (b *bench) cpuJobs(dir string, n int) (cost, error) { return b.ourJobs(dir, n, 0, 2) }

func (b *bench) gpuJobs(dir string, n int) (cost, error) {
	return b.ourJobs(dir, n, 1, 8, "--sim", "8x24GiB")
}

// ourJobs runs them, and looks whether what must be left behind is there. It counts
// only where nothing was before: jobs that are up to date take no time.
func (b *bench) ourJobs(dir string, n, gpus, atOnce int, flags ...string) (cost, error) {
	if _, err := os.Lstat(filepath.Join(dir, ".gpurun")); !errors.Is(err, fs.ErrNotExist) {
		return cost{}, fmt.Errorf("%s: %w", dir, errUsed)
	}
	if err := write(dir, "jobs.yaml", jobFile(n, gpus, atOnce)); err != nil {
		return cost{}, err
	}
	c, err := command{dir: dir, argv: append([]string{b.gpurun, "run", "jobs.yaml"}, flags...)}.measure()
	if err != nil {
		return c, err
	}
	ledger, err := os.ReadFile(filepath.Join(dir, ".gpurun/jobs.yaml/ledger.jsonl"))
	if err != nil {
		return c, err
	}
	logs, err := os.ReadDir(filepath.Join(dir, ".gpurun/jobs.yaml/logs"))
	if ends := strings.Count(string(ledger), `"kind":"end"`); ends != n || len(logs) != n {
		return c, fmt.Errorf("%d ends and %d logs of %d jobs: %w", ends, len(logs), n, errors.Join(err, errIncomplete))
	}
	return c, err
}

var (
	errIncomplete = errors.New("the run is incomplete")
	errUsed       = errors.New("another run was in this folder before")
)

func numbers(n int) string {
	var s strings.Builder
	for i := range n {
		s.WriteString(strconv.Itoa(i+1) + "\n")
	}
	return s.String()
}

func xargs(dir string, n int) (cost, error) {
	return command{dir: dir, argv: []string{"xargs", "-P2", "-n1", "sh", "-c", ":"}, stdin: numbers(n)}.measure()
}

func parallel(dir string, n int) (cost, error) {
	argv := []string{"parallel", "--will-cite", "-j2", "--joblog", "log", ": {}"}
	return command{dir: dir, argv: argv, stdin: numbers(n), env: []string{"HOME=" + dir, "SHELL=/bin/sh"}}.measure()
}

func ninja(dir string, n int) (cost, error) {
	var s strings.Builder
	s.WriteString("rule t\n command = touch $out\n")
	for i := range n {
		fmt.Fprintf(&s, "build o%d: t\n", i)
	}
	if err := write(dir, "build.ninja", s.String()); err != nil {
		return cost{}, err
	}
	return command{dir: dir, argv: []string{"ninja", "-j2"}}.measure()
}

func makeJobs(dir string, n int) (cost, error) {
	var s strings.Builder
	s.WriteString("all:")
	for i := range n {
		fmt.Fprintf(&s, " j%d", i)
	}
	// With the blank: make knows ":" itself and would start nothing.
	s.WriteString("\n.PHONY: all\nj%:\n\t@sh -c ': '\n")
	if err := write(dir, "Makefile", s.String()); err != nil {
		return cost{}, err
	}
	return command{dir: dir, argv: []string{"make", "-j2", "all"}, env: []string{"MAKEFLAGS=", "MAKELEVEL="}}.measure()
}

// spooler queues all and waits for the last: its queue is what a person would type.
func spooler(dir string, n int) (cost, error) {
	script := fmt.Sprintf(`tsp -S 2
i=0
while [ $i -lt %d ]; do tsp sh -c : >/dev/null; i=$((i+1)); done
tsp -w
tsp -K`, n)
	return command{dir: dir, argv: []string{"sh", "-c", script}, env: []string{
		"TS_SOCKET=" + filepath.Join(dir, "socket"), "TMPDIR=" + dir, "TS_MAXFINISHED=" + strconv.Itoa(n),
	}}.measure()
}
