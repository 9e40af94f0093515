// Package cluster_test runs gpurun with a real cluster. This file has the helpers of all its tests.
package cluster_test

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"gpurun/state"
)

// With the defaults, all tests together take minutes.
var (
	Kills   = flag.Int("kills", 10, "number of kills of the runner")
	Crashes = flag.Int("crashes", 2, "number of kills of the controller")
	Outage  = flag.Duration("outage", 15*time.Second, "how long the controller is down")
	Lag     = flag.Duration("lag", 5*time.Second, "delay of files on a lagging file system")
)

// kills returns the number of kills of the runner. -short needs one for each command in RunnerKilled.
func kills() int {
	if testing.Short() {
		return min(*Kills, 6)
	}
	return *Kills
}

// A Bench is a folder with a job file, jobs.yaml, and a gpurun built from this source.
type Bench struct {
	*testing.T
	Dir    string
	Binary string
	Folder string // folder of the dialect, with testdata/cluster.sh
}

// built is the folder of the built binaries; "" if no test needed any.
var built string

var (
	folder  = sync.OnceValue(func() string { built, _ = os.MkdirTemp("", "gpurun-cluster-"); return built })
	plain   = sync.OnceValues(func() (string, error) { return build("gpurun", "") })
	lagging = sync.OnceValues(func() (string, error) { return build("gpurun-lagging", "lagging") })
)

func build(name, tags string) (string, error) {
	path := filepath.Join(folder(), name)
	out, err := exec.Command("go", "build", "-ldflags", "-extldflags=-Wl,-z,lazy -X=gpurun/runner/session.Steady=1s", "-tags", tags, "-o", path, "gpurun").CombinedOutput()
	if err != nil {
		err = fmt.Errorf("%w: %s", err, out)
	}
	return path, err
}

func TestMain(m *testing.M) {
	m.Run()
	if built != "" {
		_ = os.RemoveAll(built)
	}
}

// Lagging makes every gpurun that the bench starts see files late, as through the caches of a
// network file system. Nodes see files immediately.
func (b *Bench) Lagging() {
	b.Helper()
	var err error
	if b.Binary, err = lagging(); err != nil {
		b.Fatal(err)
	}
	b.Setenv("GPURUN_LAG", Lag.String())
	b.Setenv("GPURUN_LAG_DIR", b.TempDir())
}

// Drive makes the nodes read GPUs from a stand-in for the driver. settings is the stand-in's input.
func (b *Bench) Drive(settings string) {
	b.Helper()
	library := filepath.Join(b.Dir, "libnvidia-ml.so")
	b.Command("sh", "../../../gpu/probe/testdata/build.sh", library)
	b.Write("driver", settings)
	b.Setenv("NVML_STANDIN", filepath.Join(b.Dir, "driver"))
	b.Setenv("GPURUN_NVML", library)
}

// Write writes a file in the bench's folder.
func (b *Bench) Write(name, text string) {
	b.Helper()
	if err := os.WriteFile(filepath.Join(b.Dir, name), []byte(text), 0o644); err != nil {
		b.Fatal(err)
	}
}

// An Output is the file with a command's output, which can be read while the command runs.
type Output string

func (o Output) String() string {
	text, _ := os.ReadFile(string(o))
	return string(text)
}

// Start starts gpurun in the bench's folder.
func (b *Bench) Start(args ...string) (*exec.Cmd, Output) {
	b.Helper()
	out, err := os.Create(filepath.Join(b.TempDir(), "out"))
	if err != nil {
		b.Fatal(err)
	}
	defer out.Close()
	cmd := exec.Command(b.Binary, args...)
	cmd.Dir, cmd.Env = b.Dir, append(os.Environ(), "HOME="+b.Dir, "GPURUN_CLAIMS_DIR="+b.Dir)
	cmd.Stdout, cmd.Stderr = out, out
	if err := cmd.Start(); err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { _ = cmd.Process.Kill() })
	return cmd, Output(out.Name())
}

// Finish waits up to a few minutes for gpurun to end.
func (b *Bench) Finish(cmd *exec.Cmd) error {
	b.Helper()
	end := time.AfterFunc(5*time.Minute, func() {
		b.Errorf("%q is still running after 5 minutes", cmd.Args)
		_ = cmd.Process.Kill()
	})
	defer end.Stop()
	return cmd.Wait()
}

// Run runs gpurun to its end and returns its output, whatever its exit status.
func (b *Bench) Run(args ...string) string {
	b.Helper()
	cmd, out := b.Start(args...)
	_ = b.Finish(cmd)
	return out.String()
}

// Says checks that an output contains a string.
func (b *Bench) Says(out, want string) {
	b.Helper()
	if !strings.Contains(out, want) {
		b.Errorf("output without %q:\n%s", want, out)
	}
}

// Until waits until a condition is true, and fails the test after limit.
func (b *Bench) Until(what string, limit time.Duration, is func() bool) {
	b.Helper()
	for end := time.Now().Add(limit); !is(); time.Sleep(50 * time.Millisecond) {
		if time.Now().After(end) {
			b.Fatalf("not within %v: %s", limit, what)
		}
	}
}

// Wait waits until a file has content, and returns it.
func (b *Bench) Wait(name string) (text string) {
	b.Helper()
	b.Until(name+" has content", time.Minute, func() bool {
		text = b.Read(name)
		return text != ""
	})
	return text
}

// Read returns the content of a file without surrounding space.
func (b *Bench) Read(name string) string {
	text, _ := os.ReadFile(filepath.Join(b.Dir, name))
	return strings.TrimSpace(string(text))
}

// Facts returns the facts of one kind in the ledger of jobs.yaml, by job and in order.
func (b *Bench) Facts(kind state.Kind) map[string][]state.Fact {
	b.Helper()
	all := map[string][]state.Fact{}
	text, _ := os.ReadFile(filepath.Join(b.Dir, ".gpurun/jobs.yaml/ledger.jsonl"))
	for line := range bytes.Lines(text) {
		var fact state.Fact
		if json.Unmarshal(line, &fact) == nil && fact.Kind == kind {
			all[fact.Job] = append(all[fact.Job], fact)
		}
	}
	return all
}

// JobID returns a job's ID in the cluster, once it has one.
func (b *Bench) JobID(job string) (id string) {
	b.Helper()
	b.Until(job+" has an ID in the cluster", time.Minute, func() bool {
		if q := b.Facts(state.KindQueued)[job]; len(q) > 0 {
			id = q[len(q)-1].JobID
		}
		return id != ""
	})
	return id
}

// limited runs a command with a method like CombinedOutput, and kills it after a few minutes.
func limited(run func(*exec.Cmd) ([]byte, error), args ...string) ([]byte, error) {
	ctx, cancel := context.WithTimeoutCause(context.Background(), 3*time.Minute, errors.New("did not end within 3 minutes"))
	defer cancel()
	cmd := exec.CommandContext(ctx, args[0], args[1:]...)
	cmd.WaitDelay = time.Minute
	out, err := run(cmd)
	return out, cmp.Or(context.Cause(ctx), err)
}

// Command runs a command that must succeed.
func (b *Bench) Command(args ...string) string {
	b.Helper()
	out, err := limited((*exec.Cmd).CombinedOutput, args...)
	if err != nil {
		b.Fatalf("%q: %v: %s", args, err, out)
	}
	return string(out)
}

// First makes a cluster command first run a shell command in the bench's folder. If the shell command
// exits with an error, the cluster command does not run.
func (b *Bench) First(command, does string) {
	b.Helper()
	if command == "" {
		return
	}
	b.Write(command, fmt.Sprintf("#!/bin/sh\n(cd '%s'\n%s\ntrue) || exit\nexec /usr/bin/%s \"$@\"\n", b.Dir, does, command))
	if err := os.Chmod(filepath.Join(b.Dir, command), 0o755); err != nil {
		b.Fatal(err)
	}
	if path := os.Getenv("PATH"); !strings.HasPrefix(path, b.Dir) {
		b.Setenv("PATH", b.Dir+":"+path)
	}
}

// Cluster performs an action on the test cluster, such as "kill" for its controller.
func (b *Bench) Cluster(verb string) string { return b.Command(b.Folder+"/testdata/cluster.sh", verb) }

// Kill kills the only process with this NAME=VALUE in its environment and matching arguments.
func (b *Bench) Kill(variable string, is func(args string) bool) {
	b.Helper()
	killed := 0
	procs, _ := filepath.Glob("/proc/[0-9]*")
	for _, p := range procs {
		env, _ := os.ReadFile(p + "/environ")
		args, _ := os.ReadFile(p + "/cmdline")
		if bytes.Contains(env, []byte(variable+"\x00")) && is(strings.TrimRight(strings.ReplaceAll(string(args), "\x00", " "), " ")) {
			pid, _ := strconv.Atoi(filepath.Base(p))
			if unix.Kill(pid, unix.SIGKILL) == nil {
				killed++
			}
		}
	}
	if killed != 1 {
		b.Errorf("killed %d processes with %s, want 1", killed, variable)
	}
}

// Exited reports whether a command has ended, without reaping it.
func Exited(cmd *exec.Cmd) bool {
	return unix.Kill(cmd.Process.Pid, 0) != nil || in(cmd.Process.Pid, "Z")
}

// in reports whether a process exists and is in one of the states.
func in(pid int, states string) bool {
	b, _ := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	_, after, _ := bytes.Cut(b, []byte(") "))
	return bytes.ContainsAny(after[:min(len(after), 1)], states)
}

// still are the states of a process that is stopped by a signal, or frozen with its cgroup.
const still = "TD"
