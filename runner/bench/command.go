package main

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"
)

// A cost is what one command took.
type cost struct {
	wall time.Duration
	cpu  time.Duration // of it and all that it waited for
	rss  int64         // peak of its memory, bytes
}

// A command is a program in a folder.
type command struct {
	dir   string
	argv  []string
	env   []string
	stdin string
	ok    []int // exit statuses that are as good as 0
}

// measure runs a command to its end. What it prints is only shown when it fails.
func (c command) measure() (cost, error) {
	cmd := exec.Command(c.argv[0], c.argv[1:]...)
	var said bytes.Buffer
	cmd.Dir, cmd.Stdin, cmd.Env = c.dir, strings.NewReader(c.stdin), append(os.Environ(), c.env...)
	out, err := os.CreateTemp(c.dir, "said-")
	if err != nil {
		return cost{}, err
	}
	defer os.Remove(out.Name())
	defer out.Close()
	cmd.Stdout, cmd.Stderr = out, out
	began := time.Now()
	err = cmd.Run()
	wall := time.Since(began)
	if cmd.ProcessState == nil {
		return cost{}, err
	}
	if err != nil && !slices.Contains(c.ok, cmd.ProcessState.ExitCode()) {
		text, _ := os.ReadFile(out.Name())
		said.Write(text[max(0, len(text)-2000):])
		return cost{}, fmt.Errorf("%s: %w\n%s", strings.Join(c.argv, " "), err, said.String())
	}
	use := cmd.ProcessState.SysUsage().(*syscall.Rusage)
	return cost{wall: wall, cpu: cmd.ProcessState.UserTime() + cmd.ProcessState.SystemTime(), rss: use.Maxrss << 10}, nil
}

// write makes a file.
func write(dir, name, text string) error {
	return os.WriteFile(filepath.Join(dir, name), []byte(text), 0o666)
}

// median is the middle one, or the mean of the two in the middle.
func median[T int64 | float64 | time.Duration](v []T) T {
	if len(v) == 0 {
		return 0
	}
	v = slices.Sorted(slices.Values(v))
	return (v[(len(v)-1)/2] + v[len(v)/2]) / 2
}

// percentile is the smallest value that p of 100 do not exceed.
func percentile(v []time.Duration, p int) time.Duration {
	if len(v) == 0 {
		return 0
	}
	v = slices.Sorted(slices.Values(v))
	return v[min(len(v)-1, max(0, (len(v)*p+99)/100-1))]
}

// has reports whether a program is installed.
func has(name string) bool {
	_, err := exec.LookPath(name)
	return err == nil
}
