package main

import (
	"cmp"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

// The jobs print the clock of their shell when they begin and end: a gap includes
// the start of that shell and its exit. Each needs what the one before it frees.
const (
	gapGPUs = 8
	gapFile = `settings: {max_concurrent: 8, poll: 1s}
jobs:
  - name: "g{i}"
    matrix: {i: 1..%d}
    run: 'echo "$CUDA_VISIBLE_DEVICES" $EPOCHREALTIME; sleep 0.$((100 + {i} * 37 %% 200)); echo "$CUDA_VISIBLE_DEVICES" $EPOCHREALTIME'
    env: {LC_ALL: C}
    gpu_memory: 20GiB
    shell: [bash, -c]
`
)

// gap measures how long a GPU stands idle between two jobs of one run, while two
// other runs wait for the same GPUs.
func (b *bench) gap() error {
	dir := b.folder("gap")
	sim := filepath.Join(dir, "sim.yaml")
	if err := os.WriteFile(sim, fmt.Appendf(nil, "gpus:\n  - {memory: 24GiB, count: %d}\n", gapGPUs), 0o666); err != nil {
		return err
	}
	logs := filepath.Join(dir, ".gpurun/jobs.yaml/logs")
	for range 2 {
		stop, err := b.rival(sim, filepath.Join(logs, "g1.log"))
		if err != nil {
			return err
		}
		defer stop()
	}
	files := map[string]string{"jobs.yaml": fmt.Sprintf(gapFile, gapGPUs+b.handOvers)}
	if _, err := (command{dir: dir, files: files, argv: []string{b.gpurun, "run", "--sim", sim, "jobs.yaml"}}).measure(); err != nil {
		return err
	}
	gaps, err := readGaps(logs)
	if err != nil {
		return err
	}
	if len(gaps) != b.handOvers {
		return fmt.Errorf("%d hand-overs, want %d", len(gaps), b.handOvers)
	}
	half, most := median(gaps), percentile(gaps, 99)
	under(b, "idle gap, median", millis(half), half, 8*time.Millisecond, "8 ms")
	under(b, "idle gap, p99", millis(most), most, 30*time.Millisecond, "30 ms")
	return nil
}

// rival starts a run that wants the same GPUs once the measured one has begun.
func (b *bench) rival(sim, after string) (stop func(), err error) {
	dir := b.folder("rival")
	if err := os.WriteFile(filepath.Join(dir, "jobs.yaml"), fmt.Appendf(nil, gapFile, gapGPUs), 0o666); err != nil {
		return nil, err
	}
	cmd := exec.Command("sh", "-c", fmt.Sprintf("until [ -e %q ]; do sleep 0.02; done; exec %q run --sim %q jobs.yaml", after, b.gpurun, sim))
	cmd.Dir = dir
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	return func() { interrupt(cmd) }, nil
}

// interrupt stops a run and waits for it.
func interrupt(cmd *exec.Cmd) {
	_ = cmd.Process.Signal(os.Interrupt)
	_ = cmd.Wait()
}

// A span is one job's time on its GPU, seconds since 1970.
type span struct {
	gpu        string
	begin, end float64
}

// readGaps returns the times between the end of each job and the beginning of the
// next one on its GPU.
func readGaps(logs string) ([]time.Duration, error) {
	paths, err := filepath.Glob(filepath.Join(logs, "*.log"))
	if err != nil {
		return nil, err
	}
	var spans []span
	for _, path := range paths {
		text, err := os.ReadFile(path)
		if err != nil {
			return nil, err
		}
		var s span
		if _, err := fmt.Sscan(string(text), &s.gpu, &s.begin, &s.gpu, &s.end); err != nil {
			return nil, fmt.Errorf("%s: %w", path, err)
		}
		spans = append(spans, s)
	}
	slices.SortFunc(spans, func(x, y span) int {
		return cmp.Or(strings.Compare(x.gpu, y.gpu), cmp.Compare(x.begin, y.begin))
	})
	var gaps []time.Duration
	for i := 1; i < len(spans); i++ {
		if spans[i].gpu == spans[i-1].gpu {
			gaps = append(gaps, time.Duration((spans[i].begin-spans[i-1].end)*1e9))
		}
	}
	return gaps, nil
}
