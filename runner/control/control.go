// Package control lets other commands reach a live run: a socket in the batch's folder,
// with one request and one reply per connection, for processes of the same user only. It
// defines the requests, not what they do.
package control

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"path/filepath"
	"syscall"
	"time"

	"gpurun/state"
	"gpurun/state/host"
)

// The operations of a Request.
const (
	OpStatus  = "status"   // the run's Snapshot, and the state of Jobs
	OpStop    = "stop"     // Jobs, or the whole run if there are none
	OpStopGPU = "stop-gpu" // the jobs on GPU; do not use it again
	OpDrain   = "drain"    // start nothing more
	OpForget  = "forget"   // Jobs: their last success no longer counts
	OpDone    = "done"     // Jobs: record them as succeeded without running them
)

// A Request is what a command asks of a live run.
type Request struct {
	Op   string   `json:"op"`
	Jobs []string `json:"jobs,omitempty"` // names or globs; status: names
	File string   `json:"file,omitempty"` // status: the job file of Jobs, links resolved; "" for all
	GPU  int      `json:"gpu,omitempty"`  // index
	Kill bool     `json:"kill,omitempty"` // stop: SIGKILL at once

	Without bool `json:"without_outputs,omitempty"` // done: record them even if outputs are missing
}

// A Reply is what the run answers.
type Reply struct {
	Err      string          `json:"err,omitempty"`    // why the request failed, or ""
	Done     []string        `json:"done,omitempty"`   // names of the jobs that the request reached
	Kept     []Kept          `json:"kept,omitempty"`   // those that it left alone
	PID      int             `json:"pid,omitempty"`    // of the runner
	Silent   []string        `json:"silent,omitempty"` // keepers that do not answer: their jobs cannot be stopped
	Snapshot *state.Snapshot `json:"snapshot,omitempty"`
	Jobs     []state.View    `json:"jobs,omitempty"` // status: those in the request
}

// Kept are jobs in a request to which nothing was done.
type Kept struct {
	Why     string   `json:"why"`
	Jobs    []string `json:"jobs"`
	Refused bool     `json:"refused,omitempty"` // the request cannot be carried out for them
}

// Keep records why a job is left alone.
func (r *Reply) Keep(why, job string) {
	for i := range r.Kept {
		if r.Kept[i].Why == why && !r.Kept[i].Refused {
			r.Kept[i].Jobs = append(r.Kept[i].Jobs, job)
			return
		}
	}
	r.Kept = append(r.Kept, Kept{Why: why, Jobs: []string{job}})
}

// Refuse records why the request cannot be carried out for a job.
func (r *Reply) Refuse(why, job string) {
	r.Kept = append(r.Kept, Kept{Why: why, Jobs: []string{job}, Refused: true})
}

// ErrNoRun means that no run is alive.
var ErrNoRun = errors.New("no run is alive")

const (
	socketName = "control.sock"
	maxRequest = 1 << 20
	maxReply   = 64 << 20
	patience   = 10 * time.Second // for each side to answer the other
)

// Do sends one request to the run whose folder is dir, and waits for the reply. It
// returns ErrNoRun if nobody is listening, an OtherHostError if the run is on another
// host.
func Do(ctx context.Context, dir string, r Request) (Reply, error) {
	at, err := findRun(dir)
	if err != nil {
		return Reply{}, err
	}
	var c net.Conn
	err = host.ShortPath(cmp.Or(at.Socket, socketPath(dir)), func(name string) (err error) {
		var d net.Dialer
		c, err = d.DialContext(ctx, "unix", name)
		return err
	})
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, syscall.ECONNREFUSED) {
		return Reply{}, ErrNoRun
	}
	if err != nil {
		return Reply{}, fmt.Errorf("cannot reach the run in %s: %w", dir, err)
	}
	defer c.Close()
	stop := context.AfterFunc(ctx, func() { c.Close() })
	defer stop()
	if at.Socket != "" && !host.SameUser(c) {
		return Reply{}, fmt.Errorf("%s belongs to another user", at.Socket)
	}
	return talk(c, dir, r)
}

func talk(c net.Conn, dir string, r Request) (Reply, error) {
	var reply Reply
	if err := json.NewEncoder(c).Encode(r); err != nil {
		return reply, fmt.Errorf("cannot ask the run in %s: %w", dir, err)
	}
	err := json.NewDecoder(io.LimitReader(c, maxReply)).Decode(&reply)
	if errors.Is(err, io.EOF) {
		return reply, ErrNoRun // it exited before it could answer
	}
	if err != nil {
		return reply, fmt.Errorf("the run in %s did not answer: %w", dir, err)
	}
	if reply.Err != "" {
		return reply, errors.New(reply.Err)
	}
	return reply, nil
}

// socketPath returns the socket's path, for messages.
func socketPath(dir string) string { return filepath.Join(dir, socketName) }
