package cluster

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"gpurun/gpu"
	"gpurun/runner/engine"
	"gpurun/runner/engine/local/wire"
	"gpurun/state/host"
)

// An attempt's files. Nodes see what others wrote late, some by half a minute, and names that
// appear latest of all. So each side reads only names that were there before the submission,
// of a fixed length and overwritten in place. Only claimFile appears later, and everybody
// tries to create it, which no cache answers.
const (
	launchFile = "launch.json" // what to run; see order
	taskFile   = "task"        // what the node says of its start; see task
	stopFile   = "stop"        // what the runner asks of the node; see request
	claimFile  = "claimed"     // by the node that runs it, or voidMark: it never runs

	taskSize = 1024
	stopSize = 64
	voidMark = "void"
)

// A submission's files, in submits/ID.
const (
	submitsDir  = "submits"
	tasksFile   = "tasks"   // the folder of each task's attempt, a line each
	envFile     = "env"     // of gpurun, which the attempts share
	callingFile = "calling" // locked as long as the call may go on
	answerFile  = "answer"  // what the call printed
	errFile     = "err"
)

// An order is an attempt as the node gets it.
type order struct {
	Engine string          `json:"engine,omitempty"`
	Submit string          `json:"submit"`
	Task   int             `json:"task"` // from 0
	Launch json.RawMessage `json:"launch"`
}

// A task is what the node says of an attempt that it runs.
type task struct {
	UniID   string          `json:"uni_id"`
	Host    string          `json:"host"`
	Job     string          `json:"job"` // in the cluster
	GPUs    []int           `json:"gpus,omitempty"`
	UUIDs   []gpu.UUID      `json:"gpu_uuids,omitempty"`
	Running *engine.Running `json:"running,omitempty"` // once its process exists
	Beat    int             `json:"beat"`              // grows as long as its keeper lives

	Background *engine.Background `json:"background,omitempty"`
	Declined   string             `json:"declined,omitempty"` // why it was not asked to save its work, the last time
}

// beatEvery is how often a keeper shows that it lives.
const beatEvery = 30 * time.Second

// write writes a new file.
func write(path string, content []byte, mode os.FileMode) error {
	f, err := host.OpenOwn(path, os.O_WRONLY|os.O_CREATE|os.O_TRUNC, mode)
	if err != nil {
		return err
	}
	_, err = f.Write(content)
	return errors.Join(err, f.Close())
}

// overwrite replaces what is at the beginning of a file, and waits for the disk.
func overwrite(path string, content []byte) error {
	f, err := host.OpenOwn(path, os.O_WRONLY, 0)
	if err != nil {
		return err
	}
	_, err = f.WriteAt(content, 0)
	return errors.Join(err, f.Sync(), f.Close())
}

// lay makes the files of an attempt that is to be submitted. The record says that another
// attempt has ended, which nobody takes for this one's.
func lay(l *engine.Launch, o order) error {
	var err error
	if o.Launch, err = wire.Pack(l); err != nil {
		return err
	}
	b, err := json.Marshal(o)
	if err != nil {
		return err
	}
	f, err := wire.CreateRecord(l.Dir, &wire.Record{State: wire.StateOver, UniID: "none", Exit: -1, Lost: true, Void: true})
	if err == nil {
		err = f.Close()
	}
	return errors.Join(err,
		write(filepath.Join(l.Dir, taskFile), wire.Seal([]byte("{}"), taskSize), 0o644),
		write(filepath.Join(l.Dir, stopFile), []byte(strings.Repeat(" ", stopSize)), 0o644),
		write(filepath.Join(l.Dir, launchFile), b, 0o600), // last: with it the attempt counts as submitted
	)
}

// errTorn is why an order cannot be read that was not written to its end.
var errTorn = errors.New("it was not written to its end")

// readOrder reads what is to be run for an attempt. The error is fs.ErrNotExist or errTorn if it
// was never submitted.
func readOrder(dir string) (*order, *engine.Launch, error) {
	b, err := host.ReadOwn(filepath.Join(dir, launchFile), 1<<24)
	if err != nil {
		return nil, nil, err
	}
	var o order
	if err := json.Unmarshal(b, &o); err != nil {
		return nil, nil, fmt.Errorf("%s: %w: %w", launchFile, errTorn, err)
	}
	l, err := wire.Unpack(o.Launch)
	if err != nil {
		return nil, nil, fmt.Errorf("%s: %w", launchFile, err)
	}
	return &o, l, nil
}

// readTask returns what the node says of an attempt, nil if it says nothing.
func readTask(dir, uniID string) *task {
	b, err := host.ReadOwn(filepath.Join(dir, taskFile), 2*taskSize)
	if err != nil {
		return nil
	}
	body, ok := wire.Unseal(b)
	var t task
	if !ok || json.Unmarshal(body, &t) != nil || t.UniID != uniID {
		return nil
	}
	return &t
}

func (t *task) put(dir string) error {
	c := *t
	for {
		body, err := json.Marshal(c)
		if err != nil {
			return err
		}
		if b := wire.Seal(body, taskSize); b != nil {
			return overwrite(filepath.Join(dir, taskFile), b)
		}
		c.UUIDs, c.Background, c.Declined, c.Host = nil, nil, c.Declined[:min(len(c.Declined), 200)], c.Host[:min(len(c.Host), 255)]
	}
}

// running is what a task means to the run.
func (t *task) running(adopted bool) *engine.Running {
	r := *t.Running
	r.Adopted, r.Host = adopted, t.Host
	r.Grant = &gpu.Grant{Indices: t.GPUs, UUIDs: t.UUIDs}
	return &r
}

// claim creates the marker by which an attempt runs at most once: whoever wins decides. The
// error is fs.ErrExist for a loser.
func claim(dir, by string) error {
	f, err := host.OpenOwn(filepath.Join(dir, claimFile), os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o644)
	if err != nil {
		return err
	}
	_, err = f.WriteString(by)
	if err := errors.Join(err, f.Sync(), f.Close()); err != nil && by != voidMark {
		return err // the node does not start what it cannot answer for
	}
	return nil
}

// void keeps an attempt from ever running. It returns false if a node has it already, or if
// that cannot be told.
func void(dir string) bool {
	if err := os.MkdirAll(dir, 0o755); err != nil { // somebody may have removed it; a node needs it as much
		return false
	}
	err := claim(dir, voidMark)
	return err == nil || errors.Is(err, fs.ErrExist) && claimedBy(dir) == voidMark
}

// claimedBy returns who has an attempt, "" for nobody.
func claimedBy(dir string) string {
	b, err := host.ReadOwn(filepath.Join(dir, claimFile), 4096)
	if err != nil {
		return ""
	}
	if len(b) == 0 {
		return "?" // it is being written
	}
	return string(b)
}

// A request is what the runner asks of the node: to stop an attempt, or to have it save its
// work first.
type request struct {
	how    string // "term", "kill" or "save"; "" for nothing yet
	why    string
	signal string        // save
	wait   time.Duration // save
}

func (r request) put(dir string) error {
	text := strings.TrimSpace(fmt.Sprintf("%s %s %s %d", r.how, cmp.Or(r.why, "-"), cmp.Or(r.signal, "-"), r.wait))
	return overwrite(filepath.Join(dir, stopFile), []byte(fmt.Sprintf("%-*s\n", stopSize-1, text)))
}

func readRequest(dir string) (r request) {
	b, _ := host.ReadOwn(filepath.Join(dir, stopFile), stopSize)
	if _, err := fmt.Sscanf(string(b), "%s %s %s %d", &r.how, &r.why, &r.signal, &r.wait); err != nil || len(b) != stopSize {
		return request{}
	}
	if r.why == "-" {
		r.why = ""
	}
	return r
}
