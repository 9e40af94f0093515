package main

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"
)

// A command is a program in a folder with its files.
type command struct {
	dir   string
	files map[string]string
	argv  []string
	env   []string
	stdin string
}

// A cost is what a command took.
type cost struct {
	wall time.Duration
	rss  int64 // peak memory of the process itself, bytes
}

// measure runs a command to its end and discards what it prints, unless it fails.
func (c command) measure() (cost, error) {
	for name, text := range c.files {
		if err := os.WriteFile(filepath.Join(c.dir, name), []byte(text), 0o666); err != nil {
			return cost{}, err
		}
	}
	out, err := os.CreateTemp("", "gpurun-bench-output-") // a pipe would make the bench take part
	if err != nil {
		return cost{}, err
	}
	defer os.Remove(out.Name())
	defer out.Close()
	cmd := exec.Command(c.argv[0], c.argv[1:]...)
	cmd.Dir, cmd.Stdin, cmd.Env = c.dir, strings.NewReader(c.stdin), append(os.Environ(), c.env...)
	cmd.Stdout, cmd.Stderr = out, out
	began := time.Now()
	if err = cmd.Run(); err != nil {
		text, _ := os.ReadFile(out.Name())
		return cost{}, fmt.Errorf("%s: %w\n%s", strings.Join(c.argv, " "), err, text[max(0, len(text)-2000):])
	}
	return cost{time.Since(began), cmd.ProcessState.SysUsage().(*syscall.Rusage).Maxrss << 10}, nil
}

// percentile is the smallest value that p percent of v do not exceed.
func percentile[T int64 | float64 | time.Duration](v []T, p int) T {
	v = slices.Sorted(slices.Values(v))
	return v[max(0, (len(v)*p+99)/100-1)]
}

func median[T int64 | float64 | time.Duration](v []T) T { return percentile(v, 50) }

func has(program string) bool {
	_, err := exec.LookPath(program)
	return err == nil
}
