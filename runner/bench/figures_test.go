package bench

import (
	"fmt"
	"os/exec"
	"regexp"
	"strconv"

	"github.com/dustin/go-humanize"
)

func sh(format string, args ...any) []string {
	return []string{"sh", "-c", fmt.Sprintf(format, args...)}
}

// contenders run n jobs, two at a time. Every job touches a file of its own, as ninja's edges must.
// GNU parallel and tsp are slow, so they run fewer jobs, and only rates are compared.
func (b *bench) contenders(n int) []*contender {
	fifth := max(n/5, 1)
	return []*contender{
		{program: "gpurun", jobs: n, argv: []string{b.self, wholeCommand, b.gpurun, "run", "jobs.yaml"}},
		{program: "ninja", jobs: n, bar: 0.55, argv: []string{"ninja", "-j2"}},
		{program: "tsp", jobs: fifth, bar: 0.8, argv: sh("export TS_SOCKET=$PWD/socket TMPDIR=$PWD TS_SLOTS=2; for i in $(seq %d); do tsp sh -c \"touch o$i\"; done; tsp -w %d; tsp -w %d; tsp -K", fifth, fifth-2, fifth-1)},
		{program: "parallel", jobs: fifth, bar: 1.5, argv: sh("seq %d | HOME=$PWD SHELL=/bin/sh parallel --will-cite -j2 --joblog log 'touch o{}'", fifth)},
		{program: "xargs", jobs: n, argv: sh("seq %d | xargs -P2 -I{} sh -c 'touch o{}'", n)},
	}
}

func (b *bench) throughput() {
	all := b.contenders(b.jobs)
	b.must(b.race(b.rounds, all...))
	own := b.cpuOfJobs(max(b.jobs/10, 1))
	beyond := func(c *contender) (millis series) {
		for _, cpu := range c.cpu {
			millis = append(millis, 1e3*cpu/float64(c.jobs)-own)
		}
		return millis
	}
	for _, c := range all[1:] {
		b.table.compare("throughput", "%.0f jobs/s", all[0].rate, c.program, c.rate, "≥", c.bar)
	}
	b.table.compare(fmt.Sprintf("CPU beyond a job's own %.2f ms", own), "%.2f ms a job", beyond(all[0]), all[1].program, beyond(all[1]), "", 0)
}

// cpuOfJobs runs n of these jobs in sequence, and returns the CPU time of each in milliseconds.
func (b *bench) cpuOfJobs(n int) (each float64) {
	dir := b.TempDir()
	for _, name := range outputs(n) {
		cmd := exec.Command("sh", "-c", "touch "+name)
		cmd.Dir = dir
		b.must(cmd.Run())
		each += 1e3 * (cmd.ProcessState.UserTime() + cmd.ProcessState.SystemTime()).Seconds() / float64(n)
	}
	return each
}

// nothing measures files whose jobs are all up to date.
func (b *bench) nothing() {
	few, many, whole, ninja := b.upToDate(b.few), b.upToDate(b.many), b.withOutputs(b.few), b.built(b.few)
	b.must(b.race(2*b.rounds+1, few, ninja, whole, many))
	fewJobs, manyJobs := humanize.Comma(int64(b.few))+" jobs", humanize.Comma(int64(b.many))+" jobs"
	b.table.compare("no-op, "+fewJobs, "%.1f ms", few.millis, "ninja", ninja.millis, "≤", 1)
	b.table.compare("the same with outputs", "%.1f ms", whole.millis, "ninja", ninja.millis, "≤", 1.5)
	b.table.compare("its peak memory", "%.0f MiB", few.mebi, "ninja", ninja.mebi, "≤", 2)
	b.table.compare("no-op, "+manyJobs, "%.1f ms", many.millis, fewJobs, few.millis, "≤", 12)
}

// results measures the table of a batch whose jobs have ten metrics each.
func (b *bench) results() {
	c := b.filled(resultsFile(b.few))
	c.argv = []string{b.gpurun, "results", "results.yaml"}
	b.must(b.race(2*b.rounds+1, c))
	b.table.under("results, "+humanize.Comma(int64(b.few))+" jobs × 10 metrics", "%.1f ms", c.millis.median(), 1000, " ms")
}

// startUp measures a command that does nothing but start.
func (b *bench) startUp() {
	c := &contender{program: "gpurun", argv: []string{b.gpurun, "--help"}, dir: b.TempDir()}
	b.must(b.race(10*b.rounds+1, c))
	b.table.under("start-up, gpurun --help", "%.1f ms", c.millis.median(), 20, " ms")
}

// waiting measures the cost of waiting for runs that wait for one of 8 busy GPUs, and for each
// other.
func (b *bench) waiting() {
	const runs, settled, observed = 8, 5, 30 // the last two in seconds
	dir := b.folder(
		file{"sim.yaml", "gpus:\n  - memory: 80GiB\n    count: 8\n    load: [{user: alice, command: python, pid: 4711, memory: 70GiB, util: 95}]\n"},
		file{"jobs.yaml", "jobs:\n  - {name: \"w{i}\", matrix: {i: 1..1000}, run: \": {i}\", gpu_memory: 40GiB}\n"})
	stopped := func(after int) *contender {
		return &contender{program: "gpurun", dir: dir, argv: sh(`pids=; for i in $(seq %d); do cp jobs.yaml $i.yaml; timeout -s INT %d %q run --sim sim.yaml $i.yaml & pids="$pids $!"; done
for p in $pids; do wait $p; [ $? = 124 ] || exit 1; done`, runs, after, b.gpurun)}
	}
	short, long := stopped(settled), stopped(settled+observed)
	b.must(b.race(1, short, long))
	b.table.under(fmt.Sprintf("each of %d runs waiting for %d s", runs, observed), "%.3f%% of a core", 100*(long.cpu[0]-short.cpu[0])/observed/runs, 0.5, "%")
}

// step measures the time of one scheduler event while few or many jobs wait.
func (b *bench) step() {
	cmd := exec.Command("go", "test", "-run", "^$", "-bench", "^BenchmarkStep$", "-benchtime", "2000x", "gpurun/runner/sched")
	out, err := cmd.CombinedOutput()
	if err != nil {
		b.Fatalf("%s: %v\n%s", cmd, err, out)
	}
	few, err := micros(out, 100)
	b.must(err)
	many, err := micros(out, 1_000_000)
	b.must(err)
	b.table.compare("Step, 1,000,000 waiting", "%.1f µs", series{many}, "100 waiting", series{few}, "≤", 3)
}

// micros extracts the time of a step from the output of go test.
func micros(out []byte, waiting int) (float64, error) {
	m := regexp.MustCompile(fmt.Sprintf(`BenchmarkStep/waiting=%d(?:-\d+)?\s.*?([\d.]+) ns/step`, waiting)).FindSubmatch(out)
	if m == nil {
		return 0, fmt.Errorf("no ns/step for %d jobs waiting in:\n%s", waiting, out)
	}
	ns, err := strconv.ParseFloat(string(m[1]), 64)
	return ns / 1e3, err
}
