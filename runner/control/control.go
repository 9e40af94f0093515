// Package control lets commands talk to a live run over a socket in the batch's folder. Each
// connection carries one request and one reply, and only processes of the same user may connect.
// The package defines the requests; the run carries them out.
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
	OpStatus  = "status"   // return the run's Status, and the state of each of Jobs
	OpStop    = "stop"     // stop Jobs, or the whole run if Jobs is empty
	OpStopGPU = "stop-gpu" // stop the jobs on GPU, and stop using it
	OpDrain   = "drain"    // start no more jobs
	OpForget  = "forget"   // ignore the last success of Jobs
	OpDone    = "done"     // record Jobs as succeeded without running them
	OpPause   = "pause"    // start none of Jobs, or no job at all if Jobs is empty
	OpResume  = "resume"   // undo a pause
	OpRetry   = "retry"    // rerun the failed ones of Jobs immediately
	OpWait    = "wait"     // return the state of Jobs, which may be globs
	OpReload  = "reload"   // read the job files again
	OpSet     = "set"      // apply Set to the run's settings, or to keys of Jobs
)

// A Request is a command's request to a live run.
type Request struct {
	Op   string   `json:"op"`
	Jobs []string `json:"jobs,omitempty"` // names or globs; only names for status
	File string   `json:"file,omitempty"` // the job file of Jobs, symlinks resolved; "" for all files
	GPU  int      `json:"gpu,omitempty"`  // index

	Whole bool `json:"whole,omitempty"` // status: include all jobs

	Without bool         `json:"without_outputs,omitempty"` // done: record Jobs even if their outputs are missing
	Facts   []state.Fact `json:"facts,omitempty"`           // done: the successes to record, all from File

	Set map[string]string `json:"set,omitempty"` // new value by setting or key
}

// A Reply is the run's answer to a Request.
type Reply struct {
	Err          string         `json:"err,omitempty"`     // why the request failed, or ""
	Refused      bool           `json:"refused,omitempty"` // with Err: the request is valid, but the run cannot carry it out
	Lines        []string       `json:"lines,omitempty"`   // with Err: the errors in the job files
	Messages     []string       `json:"said,omitempty"`    // what the request did, if it is not about jobs
	Done         []string       `json:"done,omitempty"`    // names of the jobs that the request changed
	Kept         []Kept         `json:"kept,omitempty"`    // jobs left unchanged
	PID          int            `json:"pid,omitempty"`     // the runner's
	Silent       []string       `json:"silent,omitempty"`  // keepers that do not answer, so their jobs cannot be stopped
	Note         string         `json:"note,omitempty"`    // what follows later, or ""
	Jobs         []*schema.Job  `json:"jobs,omitempty"`    // status, wait: the jobs in the request
	Partial      bool           `json:"partial,omitempty"` // Status leaves out jobs that the run has not selected
	Status       *schema.Status `json:"status,omitempty"`  // without Whole, its Jobs are only running and queued jobs and the next retries
	StatusGroups []StatusGroup  `json:"crowds,omitempty"`  // jobs without an attempt, which Do merges into Status
}

// Kept lists jobs that a request left unchanged, with the reason.
type Kept struct {
	Why     string   `json:"why"`
	Jobs    []string `json:"jobs"`
	Refused bool     `json:"refused,omitempty"` // the run cannot carry out the request for these jobs
}

// Keep records why the request leaves a job unchanged.
func (r *Reply) Keep(why, job string) {
	for i := range r.Kept {
		if r.Kept[i].Why == why && !r.Kept[i].Refused {
			r.Kept[i].Jobs = append(r.Kept[i].Jobs, job)
			return
		}
	}
	r.Kept = append(r.Kept, Kept{Why: why, Jobs: []string{job}})
}

// Refuse records why the run cannot carry out the request for a job.
func (r *Reply) Refuse(why, job string) {
	r.Kept = append(r.Kept, Kept{Why: why, Jobs: []string{job}, Refused: true})
}

// A Refusal reports why a run refuses a request.
type Refusal string

func (r Refusal) Error() string { return string(r) }

// ErrNoRun means that the batch has no live run.
var ErrNoRun = errors.New("no run is alive")

const (
	maxRequest = 32 << 20         // fits the longest possible command line, escaped
	maxReply   = 1 << 30          // fits a run with a million jobs
	patience   = 10 * time.Second // how long each side waits for the other
)

// Do sends one request to the run in the batch folder dir and waits for the reply. It returns
// ErrNoRun if no run is listening.
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
		err = cmp.Or(context.Cause(ctx), err) // the connection was closed because ctx ended
	}
	return reply, err
}

// dial connects to the run. It tries all socket paths on which the run may listen.
func dial(ctx context.Context, dir string) (net.Conn, error) {
	own := filepath.Join(dir, socketName)
	var failed error
	for _, path := range append([]string{own}, fallbackPaths(dir)...) {
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
		return reply, ErrNoRun // the run is exiting
	} else if err != nil {
		return reply, fmt.Errorf("cannot send a request to the run in %s: %w", dir, err)
	}
	err := json.NewDecoder(io.LimitReader(c, maxReply)).Decode(&reply)
	if errors.Is(err, io.EOF) || errors.Is(err, syscall.ECONNRESET) {
		return reply, ErrNoRun // the run exited before it could answer
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
