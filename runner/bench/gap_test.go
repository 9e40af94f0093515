package bench

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
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
func (b *bench) gap() {
	dir := b.folder(
		file{"sim.yaml", fmt.Sprintf("gpus:\n  - {memory: 24GiB, count: %d}\n", gapGPUs)},
		file{"jobs.yaml", fmt.Sprintf(gapFile, gapGPUs+b.handOvers)},
		file{"a.yaml", fmt.Sprintf(gapFile, gapGPUs)}, file{"b.yaml", fmt.Sprintf(gapFile, gapGPUs)})
	logs := filepath.Join(dir, ".gpurun/jobs.yaml/logs")
	b.must(b.race(1, &contender{program: "gpurun", dir: dir, argv: sh(`for rival in a b; do
		{ until [ -e %[1]q -o -e over ]; do sleep 0.02; done; %[2]q run --sim sim.yaml $rival.yaml; } &
	done
	%[2]q run --sim sim.yaml jobs.yaml; code=$?; touch over; wait; exit $code`, filepath.Join(logs, "g1.log"), b.gpurun)}))
	gaps, err := readGaps(logs)
	b.must(err)
	if len(gaps) != b.handOvers {
		b.Fatalf("%d hand-overs, want %d", len(gaps), b.handOvers)
	}
	b.table.under("idle gap, median", "%.1f ms", gaps.median(), 8, " ms")
	b.table.under("idle gap, p99", "%.1f ms", gaps.percentile(99), 30, " ms")
}

// readGaps returns the milliseconds between the end of each job and the beginning of
// the next one on its GPU.
func readGaps(logs string) (gaps series, err error) {
	paths, err := filepath.Glob(filepath.Join(logs, "*.log"))
	times := map[string]series{} // by GPU: where jobs begin and end, in seconds
	for _, path := range paths {
		var gpu string
		var begin, end float64
		text, err := os.ReadFile(path)
		if err == nil {
			_, err = fmt.Sscan(string(text), &gpu, &begin, &gpu, &end)
		}
		if err != nil {
			return nil, fmt.Errorf("%s: %w", path, err)
		}
		times[gpu] = append(times[gpu], begin, end)
	}
	for _, t := range times {
		slices.Sort(t)
		for i := 2; i < len(t); i += 2 {
			gaps = append(gaps, 1e3*(t[i]-t[i-1]))
		}
	}
	return gaps, err
}
