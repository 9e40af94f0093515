package main

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"time"
)

// step measures what one event costs the scheduler while few and many jobs wait.
func (b *bench) step() error {
	cmd := exec.Command("go", "test", "-run", "^$", "-bench", "^BenchmarkStep$", "-benchtime", "2000x", "./runner/sched")
	out, err := cmd.CombinedOutput()
	if err != nil {
		return fmt.Errorf("%s: %w\n%s", cmd, err, out)
	}
	few, err := nanoseconds(out, 100)
	if err != nil {
		return err
	}
	many, err := nanoseconds(out, 1_000_000)
	if err != nil {
		return err
	}
	b.ratio("Step, 1,000,000 waiting", fmt.Sprintf("%.1f µs", many/1e3), fmt.Sprintf("100 waiting %.1f µs", few/1e3), many/few, "≤", 3)
	return nil
}

// nanoseconds finds the time of a step in what go test printed.
func nanoseconds(out []byte, waiting int) (float64, error) {
	m := regexp.MustCompile(fmt.Sprintf(`BenchmarkStep/waiting=%d(?:-\d+)?\s.*?([\d.]+) ns/step`, waiting)).FindSubmatch(out)
	if m == nil {
		return 0, fmt.Errorf("no ns/step for %d jobs waiting in:\n%s", waiting, out)
	}
	return strconv.ParseFloat(string(m[1]), 64)
}

// startUp measures the command that does nothing but start.
func (b *bench) startUp() error {
	var took []time.Duration
	for range 10*b.rounds + 1 {
		c, err := command{dir: b.dir, argv: []string{b.gpurun, "--help"}}.measure()
		if err != nil {
			return err
		}
		took = append(took, c.wall)
	}
	under(b, "start-up, gpurun --help", millis(median(took)), median(took), 20*time.Millisecond, "20 ms")
	return nil
}

// waiting is a run that waits for one of 8 busy GPUs.
type waiting struct {
	cmd   *exec.Cmd
	began time.Time
	cpu   time.Duration // at began
}

// settled is how long a run takes at most until it only waits, and observed how
// long it is then watched at least.
const settled, observed = 5 * time.Second, time.Minute

func (b *bench) startWaiting() (*waiting, error) {
	dir := b.folder("waiting")
	for name, text := range map[string]string{
		"sim.yaml":  "gpus:\n  - memory: 80GiB\n    count: 8\n    load: [{user: alice, command: python, pid: 4711, memory: 70GiB, util: 95}]\n",
		"jobs.yaml": "jobs:\n  - {name: \"w{i}\", matrix: {i: 1..1000}, run: \": {i}\", gpu_memory: 40GiB}\n",
	} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o666); err != nil {
			return nil, err
		}
	}
	w := &waiting{cmd: exec.Command(b.gpurun, "run", "--sim", "sim.yaml", "jobs.yaml")}
	w.cmd.Dir = dir
	if err := w.cmd.Start(); err != nil {
		return nil, err
	}
	time.Sleep(settled)
	w.began = time.Now()
	var err error
	if w.cpu, err = cpuTime(w.cmd.Process.Pid); err != nil {
		w.stop()
	}
	return w, err
}

func (w *waiting) stop() { interrupt(w.cmd) }

func (b *bench) endWaiting(w *waiting) error {
	time.Sleep(time.Until(w.began.Add(observed)))
	cpu, err := cpuTime(w.cmd.Process.Pid)
	if err != nil {
		return fmt.Errorf("waiting: %w", err)
	}
	span := time.Since(w.began)
	share := 100 * (cpu - w.cpu).Seconds() / span.Seconds()
	under(b, fmt.Sprintf("waiting for %.0f s", span.Seconds()), fmt.Sprintf("%.3f%% of a core", share), share, 0.5, "0.5%")
	return nil
}

// cpuTime is what a live process has used.
func cpuTime(pid int) (time.Duration, error) {
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return 0, err
	}
	_, rest, _ := strings.Cut(string(stat), ") ")
	f := strings.Fields(rest)
	if f[0] == "Z" {
		return 0, fmt.Errorf("process %d has ended", pid)
	}
	user, _ := strconv.ParseInt(f[11], 10, 64)
	system, _ := strconv.ParseInt(f[12], 10, 64)
	return time.Duration(user+system) * 10 * time.Millisecond, nil // USER_HZ is 100 on every Linux
}
