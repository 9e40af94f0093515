package bench

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// A contender is a command and its measurements, round by round.
type contender struct {
	program string // the contender is skipped if this is not installed
	argv    []string
	dir     string  // folder to run in; "" for a new folder in every round
	jobs    int     // number of jobs it runs in a new folder
	bar     float64 // minimum ratio of gpurun's rate to its rate; 0 for none

	millis series
	rate   series // jobs per second
	mebi   series // peak memory of the process itself
	cpu    series // seconds
}

// race lets contenders take turns. Contenders that are not installed are skipped.
func (b *bench) race(rounds int, all ...*contender) error {
	for range rounds {
		for _, c := range all {
			if _, err := exec.LookPath(c.program); err != nil && c.program != "gpurun" {
				continue
			}
			if err := b.turn(c); err != nil {
				return err
			}
		}
	}
	return nil
}

func (b *bench) turn(c *contender) error {
	if c.dir != "" {
		return b.time(c, c.dir)
	}
	dir := b.folder(jobFile(c.jobs), edges("touch $out", outputs(c.jobs)))
	defer os.RemoveAll(dir)
	if err := b.time(c, dir); err != nil {
		return err
	}
	if made, _ := filepath.Glob(filepath.Join(dir, "o*")); len(made) != c.jobs {
		return fmt.Errorf("%s ran %d of %d jobs", c.program, len(made), c.jobs)
	}
	fmt.Fprintf(b.progress, "  %-8s %6.0f jobs/s\n", c.program, c.rate[len(c.rate)-1])
	return nil
}

// time runs a command to its end and discards its output, unless it fails.
func (b *bench) time(c *contender, dir string) error {
	out, err := os.CreateTemp(b.TempDir(), "output") // reading from a pipe would cost the bench CPU time
	if err != nil {
		return err
	}
	defer out.Close()
	cmd := exec.Command(c.argv[0], c.argv[1:]...)
	cmd.Dir, cmd.Stdout, cmd.Stderr = dir, out, out
	began := time.Now()
	if err = cmd.Run(); err != nil {
		text, _ := os.ReadFile(out.Name())
		return fmt.Errorf("%s: %w\n%s", cmd, err, text[max(0, len(text)-2000):])
	}
	took := time.Since(began).Seconds()
	c.millis, c.rate = append(c.millis, 1e3*took), append(c.rate, float64(c.jobs)/took)
	c.cpu = append(c.cpu, (cmd.ProcessState.UserTime() + cmd.ProcessState.SystemTime()).Seconds())
	c.mebi = append(c.mebi, float64(cmd.ProcessState.SysUsage().(*syscall.Rusage).Maxrss)/1024)
	return nil
}

const wholeCommand = "__whole"

// whole runs a command and waits for its leftover descendants, such as gpurun's keeper. That way,
// the cost of the jobs and of the keeper is attributed to this process's children.
func whole(argv []string) int {
	if err := unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	cmd := exec.Command(argv[0], argv[1:]...)
	cmd.Stdout, cmd.Stderr = os.Stdout, os.Stderr
	if err := cmd.Run(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	for {
		if _, err := unix.Wait4(-1, nil, 0, nil); err == unix.ECHILD {
			return 0
		}
	}
}
