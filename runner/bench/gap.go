package main

import (
	"bufio"
	"cmp"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"
)

// gaps is figure 3: how long a GPU stands idle between two jobs of one run, while
// two other runs wait for the same GPUs.
func (b *bench) gaps() error {
	if !has("bash") {
		b.missing("3 idle gap", "bash")
		return nil
	}
	plain, err := b.gapsOf("plain", "")
	if err != nil {
		return err
	}
	half, most := median(plain), percentile(plain, 99)
	b.under("3 idle gap, median", millis(half), "< 5 ms", half < 5*time.Millisecond)
	b.under("3 idle gap, 99th percentile", millis(most), "< 20 ms", most < 20*time.Millisecond)
	slow, err := b.gapsOf("slow", "jobs: {linger: 200ms}\nlatency: {processes: 4500us}\n")
	if err != nil {
		return err
	}
	b.shown("3 the same, slow driver", fmt.Sprintf("%s, p99 %s", millis(median(slow)), millis(percentile(slow, 99))), "", nan)
	b.sweep(half)
	return nil
}

// The jobs say when they begin and when they end, by the clock in their shell:
// a gap includes the start of that shell and its exit.
const (
	gapGPUs = 8
	gapFile = `settings: {max_concurrent: 8, poll: 1s}
jobs:
  - name: "g{i}"
    matrix: {i: 1..%d}
    run: 'echo begin "$CUDA_VISIBLE_DEVICES" $EPOCHREALTIME; sleep 0.$((100 + i * 37 %% 200)); echo end "$CUDA_VISIBLE_DEVICES" $EPOCHREALTIME'
    env: {i: "{i}", LC_ALL: C}
    gpus: 1
    gpu_memory: 20GiB
    shell: [bash, -c]
`
)

// gapsOf runs one batch and two rivals on the GPUs of a simulation file.
func (b *bench) gapsOf(name, more string) ([]time.Duration, error) {
	dir := b.folder("3-" + name)
	sim := fmt.Sprintf("gpus:\n  - {memory: 24GiB, count: %d}\n%s", gapGPUs, more)
	if err := write(dir, "sim.yaml", sim); err != nil {
		return nil, err
	}
	if err := write(dir, "jobs.yaml", fmt.Sprintf(gapFile, gapGPUs+b.handOvers)); err != nil {
		return nil, err
	}
	for _, rival := range []string{"rival1", "rival2"} {
		stop, err := b.rival(b.folder("3-"+name+"-"+rival), filepath.Join(dir, "sim.yaml"), filepath.Join(dir, ".gpurun/jobs.yaml/logs/g1.log"))
		if err != nil {
			return nil, err
		}
		defer stop()
	}
	if _, err := (command{dir: dir, argv: []string{b.gpurun, "run", "--sim", "sim.yaml", "jobs.yaml"}}).measure(); err != nil {
		return nil, err
	}
	spans, err := readSpans(filepath.Join(dir, ".gpurun/jobs.yaml/logs"))
	if err != nil {
		return nil, err
	}
	gaps := handOvers(spans)
	if len(gaps) != b.handOvers {
		return nil, fmt.Errorf("%d hand-overs, not %d", len(gaps), b.handOvers)
	}
	return gaps, nil
}

// rival starts a run that wants the same GPUs as soon as the first one has begun.
func (b *bench) rival(dir, sim, after string) (stop func(), err error) {
	if err := write(dir, "jobs.yaml", fmt.Sprintf(gapFile, gapGPUs)); err != nil {
		return nil, err
	}
	script := fmt.Sprintf("until [ -e %q ]; do sleep 0.02; done; exec %q run --sim %q jobs.yaml", after, b.gpurun, sim)
	cmd := exec.Command("sh", "-c", script)
	cmd.Dir = dir
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	ended := make(chan error, 1)
	go func() { ended <- cmd.Wait() }()
	return func() {
		select { // its jobs run when the first run's are done
		case <-ended:
		case <-time.After(30 * time.Second):
			_ = cmd.Process.Signal(os.Interrupt)
			<-ended
		}
	}, nil
}

// A span is one job's time on its GPU.
type span struct {
	gpu        string
	begin, end time.Duration // of the day's clock
}

func readSpans(dir string) ([]span, error) {
	paths, err := filepath.Glob(filepath.Join(dir, "*.log"))
	if err != nil {
		return nil, err
	}
	spans := make([]span, 0, len(paths))
	for _, path := range paths {
		s, err := readSpan(path)
		if err != nil {
			return nil, err
		}
		spans = append(spans, s)
	}
	return spans, nil
}

func readSpan(path string) (span, error) {
	f, err := os.Open(path)
	if err != nil {
		return span{}, err
	}
	defer f.Close()
	var s span
	for sc := bufio.NewScanner(f); sc.Scan(); {
		word := strings.Fields(sc.Text())
		if len(word) != 3 {
			return s, fmt.Errorf("%s: %q is no stamp", path, sc.Text())
		}
		micros, err := strconv.ParseInt(strings.Replace(word[2], ".", "", 1), 10, 64)
		if err != nil {
			return s, fmt.Errorf("%s: %w", path, err)
		}
		s.gpu = word[1]
		if word[0] == "begin" {
			s.begin = time.Duration(micros) * time.Microsecond
		} else {
			s.end = time.Duration(micros) * time.Microsecond
		}
	}
	if s.begin == 0 || s.end == 0 {
		return s, fmt.Errorf("%s: the job has not said that it began and ended", path)
	}
	return s, nil
}

// handOvers are the times between the end of each job and the beginning of the
// next one on its GPU.
func handOvers(spans []span) []time.Duration {
	slices.SortFunc(spans, func(x, y span) int {
		return cmp.Or(strings.Compare(x.gpu, y.gpu), cmp.Compare(x.begin, y.begin))
	})
	var gaps []time.Duration
	for i := 1; i < len(spans); i++ {
		if spans[i].gpu == spans[i-1].gpu {
			gaps = append(gaps, spans[i].begin-spans[i-1].end)
		}
	}
	return gaps
}
