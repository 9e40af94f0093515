package local

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"gpurun/gpu"
	"gpurun/runner/engine"
	"gpurun/runner/engine/local/procs"
	"gpurun/runner/engine/local/spawn"
	"gpurun/state"
)

// An origin is what a record tells of an attempt's start, for when the ledger has
// lost it: enough to find the attempt's job again and to know what it holds.
type origin struct {
	Job     string     `json:"job"`
	Key     string     `json:"key"`
	Needs   string     `json:"needs,omitempty"`
	Attempt int        `json:"attempt"`
	Log     string     `json:"log,omitempty"`
	GPUs    []int      `json:"gpus,omitempty"`
	UUIDs   []gpu.UUID `json:"gpu_uuids,omitempty"`
	Memory  gpu.Bytes  `json:"memory_bytes,omitempty"`
	Host    string     `json:"host"`
	PIDNS   string     `json:"pid_ns"`
}

func originOf(l *engine.Launch) *origin {
	host, _ := os.Hostname()
	ns, _ := os.Readlink("/proc/self/ns/pid")
	return &origin{
		Job: l.Job, Key: l.Key, Needs: l.Needs, Attempt: l.Attempt, Log: l.Stdout,
		GPUs: l.Grant.Indices, UUIDs: l.Grant.UUIDs, Memory: l.Grant.Memory, Host: host, PIDNS: ns,
	}
}

// shorter leaves out, of an origin that does not fit into its record, first the
// log, then the end of a long name.
func (o *origin) shorter(i int) *origin {
	if o == nil {
		return nil
	}
	c := *o
	c.Log = ""
	c.Job = c.Job[:min(len(c.Job), 1024>>i)]
	if i > 4 {
		c.GPUs, c.UUIDs = nil, nil
	}
	return &c
}

// An UnknownError reports an attempt that runs and of which neither the ledger nor
// its record tells which job it is of.
type UnknownError struct {
	Dir string
	PID int
}

func (e *UnknownError) Error() string {
	return fmt.Sprintf("process %d runs a job of which the ledger has no start (%s): wait for its end, or end it", e.PID, e.Dir)
}

// Recover reads from an attempt's folder what its start was, and on which machine:
// for an attempt that began and that the ledger does not have. Without an error and
// without a kind there is nothing to recover: nothing of it runs, and its record
// does not tell.
func Recover(dir, uniID string) (start, run state.Fact, err error) {
	rec, err := readRecord(dir, uniID)
	if err != nil || rec.Of == nil || rec.Of.Key == "" {
		return start, run, unknown(dir, uniID)
	}
	o := rec.Of
	start = state.Fact{
		Kind: state.KindStart, Time: rec.Started.UTC(), Job: o.Job, Key: o.Key, UniID: uniID, Attempt: o.Attempt,
		GPUs: o.GPUs, GPUUUIDs: o.UUIDs, Memory: o.Memory, Log: o.Log, Needs: o.Needs,
	}
	if rec.BootID == bootID() {
		start.Boot = rec.Boot
	}
	return start, state.Fact{Kind: state.KindRun, Host: o.Host, BootID: rec.BootID, PIDNS: o.PIDNS}, nil
}

// unknown is an error while a process of the attempt lives.
func unknown(dir, uniID string) error {
	for i := 0; ; i++ {
		p, err := spawn.Begun(marker(dir, i))
		if errors.Is(err, fs.ErrNotExist) {
			break
		}
		if err == nil && p.PID != 0 && procs.Alive(p) {
			return &UnknownError{Dir: dir, PID: p.PID}
		}
		if err != nil {
			break
		}
	}
	if named := procs.Named(uniID); len(named) > 0 {
		return &UnknownError{Dir: dir, PID: named[0].PID}
	}
	return nil
}

// keeperLinger is how long a keeper takes to go that has nothing more to do.
const keeperLinger = 2 * time.Second

// StrayKeeper returns a keeper of an earlier run in a state folder that has been
// removed since, or 0: nobody can ask it what became of its jobs.
func StrayKeeper(dir string) int {
	for began := time.Now(); ; time.Sleep(50 * time.Millisecond) {
		pid := strayKeeper(dir)
		if pid == 0 || time.Since(began) > keeperLinger {
			return pid
		}
	}
}

func strayKeeper(dir string) int {
	entries, err := os.ReadDir("/proc")
	if err != nil {
		return 0
	}
	for _, e := range entries {
		pid, err := strconv.Atoi(e.Name())
		if err != nil {
			continue
		}
		b, err := os.ReadFile("/proc/" + e.Name() + "/cmdline")
		args := strings.Split(string(b), "\x00")
		if err != nil || len(args) < 3 || !slices.Equal(args[:2], []string{"gpurun", "__keeper"}) || !isSocketOf(args[2], dir) {
			continue
		}
		if _, err := os.Lstat(args[2]); errors.Is(err, fs.ErrNotExist) {
			return pid
		}
	}
	return 0
}

// isSocketOf reports whether a path is that of a keeper's socket in a state folder.
func isSocketOf(path, dir string) bool {
	name, ok := strings.CutPrefix(path, dir+"/keeper-")
	return ok && strings.HasSuffix(name, ".sock")
}
