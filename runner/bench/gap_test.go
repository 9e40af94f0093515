package bench

import (
	"cmp"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

const gapGPUs = 8

// gapFile returns a batch of jobs that sleep for the duration given by a shell expression. They
// print their shell's clock at the start and end, so a gap includes the start and exit of that
// shell. Each job needs a GPU of its own.
func gapFile(settings string, jobs int, seconds string) string {
	return fmt.Sprintf(`settings: {%s}
jobs:
  - name: "g{i}"
    matrix: {i: 1..%d}
    run: 'echo "$CUDA_VISIBLE_DEVICES" $EPOCHREALTIME; sleep %s; echo "$CUDA_VISIBLE_DEVICES" $EPOCHREALTIME'
    env: {LC_ALL: C}
    gpu_memory: 20GiB
    shell: [bash, -c]
`, settings, jobs, seconds)
}

// gap measures how long a GPU is idle between two jobs of one run, while two other runs wait for
// the same GPUs and get their turns.
func (b *bench) gap() {
	batch := func(jobs int) string {
		return gapFile("max_concurrent: 8, poll: 1s", jobs, "0.$((100 + {i} * 37 % 200))")
	}
	dir := b.folder(
		file{"sim.yaml", fmt.Sprintf("gpus:\n  - {memory: 24GiB, count: %d}\n", gapGPUs)},
		file{"jobs.yaml", batch(gapGPUs + b.handOvers)},
		file{"a.yaml", batch(gapGPUs)}, file{"b.yaml", batch(gapGPUs)})
	var logs []string
	for _, name := range []string{"jobs", "a", "b"} {
		logs = append(logs, filepath.Join(dir, ".gpurun", name+".yaml", "logs"))
	}
	b.must(b.race(1, &contender{program: "gpurun", dir: dir, argv: sh(`for rival in a b; do
		{ until [ -e %[1]q -o -e over ]; do sleep 0.02; done; %[2]q run --sim sim.yaml $rival.yaml; } &
	done
	%[2]q run --sim sim.yaml jobs.yaml; code=$?; touch over; wait; exit $code`, filepath.Join(logs[0], "g1.log"), b.gpurun)}))
	gaps, err := readGaps(true, logs...)
	b.must(err)
	if len(gaps) < b.handOvers/2 {
		b.Fatalf("%d hand-overs within a run, want about %d", len(gaps), b.handOvers)
	}
	b.table.under("idle gap, median", "%.1f ms", gaps.median(), 8, " ms")
	b.table.under("idle gap, p99", "%.1f ms", gaps.percentile(99), 30, " ms")
}

// betweenUsers measures how long the only GPU is idle between the end of one user's job and the
// first instruction of another user's, with the two taking turns.
func (b *bench) betweenUsers() {
	dir := b.folder(file{"sim.yaml", "gpus: [{memory: 24GiB}]\n"})
	as := map[string]string{"alice": "", "bob": ""}
	if os.Getuid() == 0 { // otherwise both runs belong to this user, and also take turns
		as["bob"] = "setpriv --reuid 64001 --regid 64001 --clear-groups env HOME=$PWD XDG_RUNTIME_DIR="
		b.must(os.Chmod(os.Getenv("GPURUN_CLAIMS_DIR"), os.ModeSticky|0o777))
		for _, path := range []string{dir, os.Getenv("GPURUN_CLAIMS_DIR"), b.gpurun} {
			for ; path != "/"; path = filepath.Dir(path) {
				if fi, err := os.Stat(path); err == nil && fi.Mode()&0o5 != 0o5 {
					_ = os.Chmod(path, fi.Mode()|0o5)
				}
			}
		}
	}
	batch := gapFile("poll: 1s", b.handOvers/2+1, "0.0$((2 + {i} * 7 % 6))")
	// Neither user's first job ends before the other user's run has begun.
	batch = strings.Replace(batch, "run: '", "run: 'until [ -e ../alice/.gpurun/jobs.yaml/ledger.jsonl -a -e ../bob/.gpurun/jobs.yaml/ledger.jsonl ]; do sleep 0.02; done; ", 1)
	var logs []string
	for user := range as {
		b.must(os.Mkdir(filepath.Join(dir, user), 0o777))
		b.must(os.Chmod(filepath.Join(dir, user), 0o777))
		b.must(os.WriteFile(filepath.Join(dir, user, "jobs.yaml"), []byte(batch), 0o644))
		logs = append(logs, filepath.Join(dir, user, ".gpurun/jobs.yaml/logs"))
	}
	b.must(b.race(1, &contender{program: "gpurun", dir: dir, argv: sh(`cd alice; %[1]q run --sim ../sim.yaml jobs.yaml & cd ../bob; %[2]s %[1]q run --sim ../sim.yaml jobs.yaml && wait $!`, b.gpurun, as["bob"])}))
	gaps, err := readGaps(false, logs...)
	b.must(err)
	if len(gaps) < b.handOvers/4 { // on a busy host, a user may get several jobs in a row
		b.Fatalf("the users took turns %d times, want about %d", len(gaps), b.handOvers)
	}
	b.table.under("between users, median", "%.1f ms", gaps.median(), 50, " ms")
	b.table.under("between users, p99", "%.1f ms", gaps.percentile(99), 300, " ms")
}

// readGaps returns the milliseconds between the end of each job and the start of the next one on
// its GPU, for pairs of the same run or of different runs. Each run has its own folder of logs.
func readGaps(same bool, logs ...string) (gaps series, err error) {
	type job struct {
		logs       string
		begin, end float64 // seconds
	}
	jobs := map[string][]job{} // by GPU
	for _, dir := range logs {
		paths, err := filepath.Glob(filepath.Join(dir, "*.log"))
		if err != nil {
			return nil, err
		}
		for _, path := range paths {
			j, gpu := job{logs: dir}, ""
			text, err := os.ReadFile(path)
			if err == nil {
				_, err = fmt.Sscan(string(text), &gpu, &j.begin, &gpu, &j.end)
			}
			if err != nil {
				return nil, fmt.Errorf("%s: %w", path, err)
			}
			jobs[gpu] = append(jobs[gpu], j)
		}
	}
	for _, list := range jobs {
		slices.SortFunc(list, func(a, b job) int { return cmp.Compare(a.begin, b.begin) })
		for i := range list[1:] {
			if same == (list[i].logs == list[i+1].logs) {
				gaps = append(gaps, 1e3*(list[i+1].begin-list[i].end))
			}
		}
	}
	return gaps, nil
}
