package main

import (
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"time"
)

// waiting is figure 4: a run that waits for a busy GPU of eight while everything
// else is measured.
type waiting struct {
	cmd   *exec.Cmd
	began time.Time
	cpu   time.Duration // when the measuring began
	rss   int64
}

// settle is how long a run may take until it only waits.
const settle = 5 * time.Second

func (b *bench) startWaiting(settle time.Duration) (*waiting, error) {
	dir := b.folder("4")
	sim := "gpus:\n  - memory: 80GiB\n    count: 8\n    load: [{user: alice, command: python, pid: 4711, memory: 70GiB, util: 95}]\n"
	if err := write(dir, "sim.yaml", sim); err != nil {
		return nil, err
	}
	text := "jobs:\n  - {name: \"w{i}\", matrix: {i: 1..1000}, run: \":\", gpus: 1, gpu_memory: 40GiB}\n"
	if err := write(dir, "jobs.yaml", text); err != nil {
		return nil, err
	}
	w := &waiting{cmd: exec.Command(b.gpurun, "run", "--sim", "sim.yaml", "jobs.yaml")}
	w.cmd.Dir = dir
	if err := w.cmd.Start(); err != nil {
		return nil, err
	}
	<-time.After(settle)
	w.began = time.Now()
	var err error
	if w.cpu, w.rss, err = used(w.cmd.Process.Pid); err != nil {
		w.stop()
	}
	return w, err
}

func (w *waiting) stop() {
	_ = w.cmd.Process.Signal(os.Interrupt)
	_ = w.cmd.Wait()
}

// leastWaiting is the shortest time that says something.
const leastWaiting = time.Minute

func (b *bench) endWaiting(w *waiting, least time.Duration) error {
	if left := least - time.Since(w.began); left > 0 {
		<-time.After(left)
	}
	cpu, rss, err := used(w.cmd.Process.Pid)
	if err != nil {
		return fmt.Errorf("figure 4: the run that waits has ended: %w", err)
	}
	span := time.Since(w.began)
	share := 100 * (cpu - w.cpu).Seconds() / span.Seconds()
	b.under(fmt.Sprintf("4 waiting, %.0f s for one of 8 GPUs", span.Seconds()), fmt.Sprintf("%.3f%% of a core", share), "< 0.5%", share < 0.5)
	grown := rss - w.rss
	b.under("4 growth of its memory", mebibytes(grown), "< 4 MiB", grown < 4<<20)
	return nil
}

// used is what a process has taken so far: CPU time, and memory that it holds now.
func used(pid int) (time.Duration, int64, error) {
	const tick = 10 * time.Millisecond // USER_HZ is 100 on every Linux
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return 0, 0, err
	}
	_, rest, _ := strings.Cut(string(stat), ") ")
	f := strings.Fields(rest)
	if len(f) < 22 || f[0] == "Z" {
		return 0, 0, fmt.Errorf("process %d is over", pid)
	}
	user, _ := strconv.ParseInt(f[11], 10, 64)
	system, _ := strconv.ParseInt(f[12], 10, 64)
	pages, _ := strconv.ParseInt(f[21], 10, 64)
	return time.Duration(user+system) * tick, pages * int64(os.Getpagesize()), nil
}
