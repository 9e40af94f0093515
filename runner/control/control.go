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
	"gpurun/state/schema"
)

// The operations of a Request.
const (
	OpStatus  = "status"   // the run's Status, and the state of Jobs
	OpStop    = "stop"     // Jobs, or the whole run if there are none
	OpStopGPU = "stop-gpu" // the jobs on GPU; do not use it again
	OpDrain   = "drain"    // start nothing more
	OpForget  = "forget"   // Jobs: their last success no longer counts
	OpDone    = "done"     // Jobs: record them as succeeded without running them
	OpPause   = "pause"    // start none of Jobs, or nothing at all if there are none
	OpResume  = "resume"   // undo a pause
	OpRetry   = "retry"    // Jobs: run the failed ones again, immediately
	OpWait    = "wait"     // the state of Jobs, which may be globs
	OpReload  = "reload"   // read the job files again
	OpSet     = "set"      // Set: settings, or with Jobs keys of theirs
)

// A Request is a command's request to a live run.
type Request struct {
	Op   string   `json:"op"`
	Jobs []string `json:"jobs,omitempty"` // names or globs; status: names
	File string   `json:"file,omitempty"` // status: the job file of Jobs, links resolved; "" for all
	GPU  int      `json:"gpu,omitempty"`  // index

	Whole bool `json:"whole,omitempty"` // status: of all jobs

	Without bool         `json:"without_outputs,omitempty"` // done: record them even if outputs are missing
	Facts   []state.Fact `json:"facts,omitempty"`           // done: of File, the successes to record

	Set map[string]string `json:"set,omitempty"` // by setting
}

// A Reply is the run's answer to a Request.
type Reply struct {
	Err          string         `json:"err,omitempty"`     // why the request failed, or ""
	Refused      bool           `json:"refused,omitempty"` // with Err: the request is right, but the run cannot carry it out
	Lines        []string       `json:"lines,omitempty"`   // with Err: the mistakes in the job files
	Said         []string       `json:"said,omitempty"`    // what has become of the request, if it is not about jobs
	Done         []string       `json:"done,omitempty"`    // names of the jobs that the request reached
	Kept         []Kept         `json:"kept,omitempty"`    // those that it left alone
	PID          int            `json:"pid,omitempty"`     // of the runner
	Silent       []string       `json:"silent,omitempty"`  // keepers that do not answer: their jobs cannot be stopped
	Jobs         []schema.Job   `json:"jobs,omitempty"`    // status, wait: those in the request
	Status       *schema.Status `json:"status,omitempty"`  // without Whole, Jobs are those that are running or queued, and the next retries
	StatusGroups []StatusGroup  `json:"crowds,omitempty"`  // with Status: jobs without an attempt; Do adds them to it
}

// Kept lists jobs that a request left unchanged, with the reason.
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

// A Refusal reports why a run refuses a request.
type Refusal string

func (r Refusal) Error() string { return string(r) }

// ErrNoRun means that no run is alive.
var ErrNoRun = errors.New("no run is alive")

const (
	maxRequest = 1 << 20
	maxReply   = 1 << 30          // of a run with a million jobs
	patience   = 10 * time.Second // for each side to answer the other
)

// Do sends one request to the run whose folder is dir, and waits for the reply. It
// returns ErrNoRun if no run is listening.
func Do(ctx context.Context, dir string, r Request) (Reply, error) {
	c, err := dial(ctx, dir)
	if err != nil {
		return Reply{}, err
	}
	defer c.Close()
	stop := context.AfterFunc(ctx, func() { c.Close() })
	defer stop()
	reply, err := talk(c, dir, r)
	if err != nil && errors.Is(err, net.ErrClosed) {
		err = cmp.Or(context.Cause(ctx), err) // the end of ctx closed the connection
	}
	return reply, err
}

// dial connects to the run, wherever it listens.
func dial(ctx context.Context, dir string) (net.Conn, error) {
	own := filepath.Join(dir, socketName)
	var failed error
	for _, path := range append([]string{own}, elsewhere(dir)...) {
		var c net.Conn
		err := host.ShortPath(path, func(name string) (err error) {
			c, err = new(net.Dialer).DialContext(ctx, "unix", name)
			return err
		})
		switch {
		case err == nil && (path == own || host.SameUser(c)):
			return c, nil
		case err == nil:
			c.Close()
			failed = cmp.Or(failed, fmt.Errorf("%s belongs to another user", path))
		case !errors.Is(err, fs.ErrNotExist) && !errors.Is(err, syscall.ECONNREFUSED):
			failed = cmp.Or(failed, fmt.Errorf("cannot reach the run in %s: %w", dir, err))
		}
	}
	return nil, cmp.Or(failed, ErrNoRun)
}

func talk(c net.Conn, dir string, r Request) (Reply, error) {
	var reply Reply
	if err := json.NewEncoder(c).Encode(r); errors.Is(err, syscall.EPIPE) {
		return reply, ErrNoRun // it is exiting
	} else if err != nil {
		return reply, fmt.Errorf("cannot ask the run in %s: %w", dir, err)
	}
	err := json.NewDecoder(io.LimitReader(c, maxReply)).Decode(&reply)
	if errors.Is(err, io.EOF) || errors.Is(err, syscall.ECONNRESET) {
		return reply, ErrNoRun // it exited before it could answer
	}
	if err != nil {
		return reply, fmt.Errorf("the run in %s did not answer: %w", dir, err)
	}
	reply.unpack()
	if reply.Refused {
		return reply, Refusal(reply.Err)
	}
	if reply.Err != "" {
		return reply, errors.New(reply.Err)
	}
	return reply, nil
}
