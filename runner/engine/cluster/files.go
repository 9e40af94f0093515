package cluster

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"time"

	"gpurun/gpu"
	"gpurun/runner/engine"
	"gpurun/runner/engine/local/wire"
	"gpurun/state"
	"gpurun/state/host"
)

// On a network file system, nodes may see writes half a minute late, and new names even later. So
// each side reads only files that existed before the submission, have a fixed length, and are
// overwritten in place. The exception is claimFile: both sides try to create it, and no cache can
// answer that. No file is written by two nodes, because each may cache a page and write it back
// whole. There are few files, because creating them is the slowest operation.
//
// An attempt has the following files. wire.StatusFile contains the record, then the task that the
// node writes, then the place, which is never overwritten.
const (
	claimFile = "claimed" // contains the name of the node that runs the attempt, or voidMark if none may
	voidMark  = "void"

	taskFrom  = wire.StatusSize
	taskSize  = 1024
	placeFrom = taskFrom + taskSize
)

// A submission's files, in submits/NAME.
const (
	submitsDir   = "submits"
	launchesFile = "launches" // a line for each task: its launch
	stopsFile    = "stops"    // the runner's requests to the nodes, stopSize bytes for each task
	envFile      = "env"      // gpurun's environment, shared by the attempts
	callingFile  = "calling"  // locked while the submit command may be running
	answerFile   = "answer"   // output of the submit command
	errFile      = "err"
	holdsFile    = "holds" // tasks held by the runner: a mark for each task

	stopSize = 64
)

// A place names the submission of an attempt. An attempt with a place counts as submitted.
type place struct {
	Engine string `json:"engine"`
	Submit string `json:"submit"`         // the submission's folder
	Task   int    `json:"task"`           // index of the task, from 0
	GPUs   int    `json:"gpus,omitempty"` // number of GPUs requested
}

// A task is a node's report on the attempt that it runs.
type task struct {
	UniID   string          `json:"uni_id"`
	Host    string          `json:"host"`
	GPUs    []int           `json:"gpus,omitempty"`
	UUIDs   []gpu.UUID      `json:"gpu_uuids,omitempty"`
	Running *engine.Running `json:"running,omitempty"` // once its process exists
	Beat    int             `json:"beat"`              // increases while its keeper is alive

	Background *engine.Background `json:"background,omitempty"`
	Stray      string             `json:"stray,omitempty"` // describes a process of the attempt on a GPU outside its grant
}

// beatEvery is the interval of a keeper's heartbeat.
const beatEvery = 30 * time.Second

func write(path string, content []byte, mode os.FileMode) error {
	f, err := host.OpenOwn(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, mode)
	if err != nil {
		return err
	}
	_, err = f.Write(content)
	return errors.Join(err, f.Close())
}

// overwrite replaces a part of a file, and syncs it.
func overwrite(path string, from int64, content []byte) error {
	f, err := host.OpenOwn(path, os.O_WRONLY, 0)
	if err != nil {
		return err
	}
	_, err = f.WriteAt(content, from)
	return errors.Join(err, f.Sync(), f.Close())
}

// blank is the initial content of a status file, up to the place. Its record names no attempt, so
// readers ignore it.
var blank = append((&wire.Record{State: wire.StateOver, UniID: "none", End: state.End{ExitCode: -1, Lost: true, Void: true}}).Encode(), wire.Seal([]byte("{}"), taskSize)...)

// writeStatus creates the status file of an attempt before its submission.
func writeStatus(dir string, p place) error {
	b, err := json.Marshal(p)
	if err != nil {
		return err
	}
	return write(filepath.Join(dir, wire.StatusFile), slices.Concat(blank, b), 0o644)
}

// A status is the content of an attempt's status file.
type status []byte

func readStatus(dir string) (status, error) { return wire.ReadStatus(dir) }

// place returns the attempt's submission. ok is false if the file is incomplete, in which case the
// attempt was never submitted.
func (s status) place() (p place, ok bool) {
	err := json.Unmarshal(s[min(len(s), placeFrom):], &p)
	return p, err == nil
}

// result returns the node's record of the attempt's end, and the node's task. Each is nil if there
// is none.
func (s status) result(uniID string) (end *wire.Record, t *task) {
	if bytes.HasPrefix(s, blank) {
		return nil, nil
	}
	if rec, err := wire.RecordIn(s, uniID); err == nil && rec.State == wire.StateOver {
		end = rec
	}
	body, ok := wire.Unseal(s[min(len(s), taskFrom):min(len(s), placeFrom)])
	if !ok || json.Unmarshal(body, &t) != nil || t == nil || t.UniID != uniID {
		t = nil
	}
	return end, t
}

// launchesOf returns a submission's launches in the format of Pack, indexed by task.
func launchesOf(submission string) ([][]byte, error) {
	b, err := host.ReadOwn(filepath.Join(submission, launchesFile), 1<<30)
	lines := bytes.Split(b, []byte("\n"))
	return lines[:len(lines)-1], err // a last line without a newline is incomplete
}

func (p place) launch() (*engine.Launch, error) {
	all, err := launchesOf(p.Submit)
	switch {
	case err != nil:
		return nil, err
	case p.Task < 0 || p.Task >= len(all):
		return nil, fmt.Errorf("%s has no task %d", p.Submit, p.Task)
	}
	return wire.Unpack(all[p.Task])
}

func (t *task) put(dir string) error {
	c := *t
	for most := 256; ; most /= 2 {
		body, err := json.Marshal(c)
		if err != nil {
			return err
		}
		if b := wire.Seal(body, taskSize); b != nil {
			return overwrite(filepath.Join(dir, wire.StatusFile), taskFrom, b)
		}
		c.UUIDs, c.Background = nil, nil
		for _, text := range []*string{&c.Stray, &c.Host} {
			*text = (*text)[:min(len(*text), most)]
		}
	}
}

// running returns the Running of a task whose process exists.
func (t *task) running(adopted bool) *engine.Running {
	r := *t.Running
	r.Adopted, r.Host = adopted, t.Host
	r.Grant = &gpu.Grant{Indices: t.GPUs, UUIDs: t.UUIDs}
	return &r
}

// claim creates the marker that makes an attempt run at most once. Only one caller succeeds; for
// all others the error is fs.ErrExist.
func claim(dir, by string) error {
	f, err := host.OpenOwn(filepath.Join(dir, claimFile), os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o644)
	if err != nil {
		return err
	}
	_, err = f.WriteString(by)
	if err := errors.Join(err, f.Sync(), f.Close()); err != nil && by != voidMark {
		return err // the claim may be lost in a crash, so the node must not start the attempt
	}
	return nil
}

// forbid prevents an attempt from ever running. It returns false if a node has claimed it, or if
// that is unknown.
func forbid(dir string) bool {
	if err := os.MkdirAll(dir, 0o755); err != nil { // the marker needs the folder, which may have been removed
		return false
	}
	err := claim(dir, voidMark)
	return err == nil || errors.Is(err, fs.ErrExist) && claimedBy(dir) == voidMark
}

// claimedBy returns the node that has claimed an attempt, or "".
func claimedBy(dir string) string {
	b, err := host.ReadOwn(filepath.Join(dir, claimFile), 4096)
	if err != nil {
		return ""
	}
	if len(b) == 0 {
		return "?" // the claimant is writing it
	}
	return string(b)
}

// A request asks the node to stop an attempt.
type request struct {
	how string // "term" or "kill"; "" for nothing yet
	why string
}

func (r request) put(p place) error {
	text := r.how + " " + cmp.Or(r.why, "-")
	return overwrite(filepath.Join(p.Submit, stopsFile), int64(p.Task)*stopSize, []byte(fmt.Sprintf("%-*s\n", stopSize-1, text)))
}

func readRequest(p place) (r request) {
	f, err := host.OpenOwn(filepath.Join(p.Submit, stopsFile), os.O_RDONLY, 0)
	if err != nil {
		return request{}
	}
	defer f.Close()
	b := make([]byte, stopSize)
	if _, err := f.ReadAt(b, int64(p.Task)*stopSize); err != nil {
		return request{}
	}
	if n, _ := fmt.Sscanf(string(b), "%s %s", &r.how, &r.why); n < 2 {
		return request{}
	}
	if r.why == "-" {
		r.why = ""
	}
	return r
}
