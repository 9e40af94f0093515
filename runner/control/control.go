// Package control is how other commands reach a live run: a socket in the batch's
// folder, one request and one reply a connection, from processes of the same user
// alone. It knows the words of a request, not what they do.
package control

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"gpurun/state"
)

// The operations of a Request.
const (
	OpStatus  = "status"   // the run's Snapshot, and Jobs as they stand
	OpStop    = "stop"     // Jobs, or without any the whole run
	OpStopGPU = "stop-gpu" // what stands on GPU; leave it alone from then on
	OpDrain   = "drain"    // start nothing more
	OpForget  = "forget"   // Jobs: their last success no longer counts
	OpDone    = "done"     // Jobs: succeeded, without running them
)

// A Request is what a command asks of a live run.
type Request struct {
	Op   string   `json:"op"`
	Jobs []string `json:"jobs,omitempty"` // names or globs; status: names
	File string   `json:"file,omitempty"` // status: the job file whose Jobs are meant, its links resolved; "" for all
	GPU  int      `json:"gpu,omitempty"`  // index
	Kill bool     `json:"kill,omitempty"` // stop: SIGKILL at once

	Without bool `json:"without_outputs,omitempty"` // done: they count even though outputs are missing
}

// A Reply is what the run answers.
type Reply struct {
	Err      string          `json:"err,omitempty"`    // why not, in words; "" when it was done
	Done     []string        `json:"done,omitempty"`   // names of the jobs that the request reached
	Kept     []Kept          `json:"kept,omitempty"`   // those that it leaves as they are
	PID      int             `json:"pid,omitempty"`    // of the runner
	Silent   []string        `json:"silent,omitempty"` // keepers that do not answer: what they run cannot be stopped
	Snapshot *state.Snapshot `json:"snapshot,omitempty"`
	Jobs     []state.View    `json:"jobs,omitempty"` // status: those that the request names
}

// Kept are jobs that a request names and does nothing to.
type Kept struct {
	Why     string   `json:"why"`
	Jobs    []string `json:"jobs"`
	Refused bool     `json:"refused,omitempty"` // what was asked cannot be done to them
}

// Keep notes why a job is left as it is.
func (r *Reply) Keep(why, job string) {
	for i := range r.Kept {
		if r.Kept[i].Why == why && !r.Kept[i].Refused {
			r.Kept[i].Jobs = append(r.Kept[i].Jobs, job)
			return
		}
	}
	r.Kept = append(r.Kept, Kept{Why: why, Jobs: []string{job}})
}

// Refuse notes why what was asked cannot be done to a job.
func (r *Reply) Refuse(why, job string) {
	r.Kept = append(r.Kept, Kept{Why: why, Jobs: []string{job}, Refused: true})
}

// ErrNoRun says that no run is alive there.
var ErrNoRun = errors.New("no run is alive")

const (
	socketName = "control.sock"
	maxRequest = 1 << 20
	maxReply   = 64 << 20
	patience   = 10 * time.Second // for one side to be heard by the other
)

// within gives a path to name in folder dir that is short enough for a socket's
// address, which holds 107 bytes: through the descriptor of the folder.
func within(dir, name string) (path string, done func(), err error) {
	fd, err := unix.Open(dir, unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return "", nil, &fs.PathError{Op: "open", Path: dir, Err: err}
	}
	return fmt.Sprintf("/proc/self/fd/%d/%s", fd, name), func() { unix.Close(fd) }, nil
}

// Do sends one request to the run whose folder is dir, and waits for its reply.
// ErrNoRun says that nobody listens there, an OtherHostError that the run is where
// no socket reaches.
func Do(ctx context.Context, dir string, r Request) (Reply, error) {
	at, err := findRun(dir)
	if err != nil {
		return Reply{}, err
	}
	folder, name := dir, socketName
	if at.Socket != "" {
		folder, name = filepath.Split(at.Socket)
	}
	path, done, err := within(folder, name)
	if errors.Is(err, fs.ErrNotExist) {
		return Reply{}, ErrNoRun
	}
	if err != nil {
		return Reply{}, err
	}
	defer done()
	var d net.Dialer
	c, err := d.DialContext(ctx, "unix", path)
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, syscall.ECONNREFUSED) {
		return Reply{}, ErrNoRun
	}
	if err != nil {
		return Reply{}, fmt.Errorf("cannot reach the run in %s: %w", dir, err)
	}
	defer c.Close()
	stop := context.AfterFunc(ctx, func() { c.Close() })
	defer stop()
	if at.Socket != "" && !sameUser(c.(*net.UnixConn)) {
		return Reply{}, fmt.Errorf("%s is not this user's", at.Socket)
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
		return reply, ErrNoRun // it ended before it could answer
	}
	if err != nil {
		return reply, fmt.Errorf("the run in %s did not answer: %w", dir, err)
	}
	if reply.Err != "" {
		return reply, errors.New(reply.Err)
	}
	return reply, nil
}

// socketPath is where the socket lies, for messages.
func socketPath(dir string) string { return filepath.Join(dir, socketName) }

// sameUser says whether the peer is this user, or root.
func sameUser(c *net.UnixConn) bool {
	raw, err := c.SyscallConn()
	if err != nil {
		return false
	}
	ok := false
	_ = raw.Control(func(fd uintptr) {
		cred, err := unix.GetsockoptUcred(int(fd), unix.SOL_SOCKET, unix.SO_PEERCRED)
		ok = err == nil && (int(cred.Uid) == os.Getuid() || cred.Uid == 0)
	})
	return ok
}
