package cluster

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	"gpurun/runner/engine"
)

// A Dialect is what one kind of cluster calls things: its commands, and what their output means.
// It runs nothing itself.
type Dialect interface {
	// Name is the engine's, on the command line and in the ledger.
	Name() string
	// Args returns what a job's demands are in a submission, or which key has no counterpart.
	Args(a Asked) ([]string, error)
	// Granted returns the variable in which a node may have the numbers of a job's GPUs, if it does
	// not set CUDA_VISIBLE_DEVICES; "" for none.
	Granted(options map[string]string) string
	// Submit returns the command that reads a script and submits it as an array.
	Submit(a Array, args []string) Command
	// Accepted returns the job's ID from the output of Submit, "" if it was not accepted.
	Accepted(stdout string) string
	// Refused reads the error of Submit or Try: whether nothing was submitted for certain, why, and
	// what to do about it. Without a reason Try has that.
	Refused(stderr string) (is Refusal, why string)
	// Limits returns the command that lists the time limits for a submission with these arguments,
	// and what reads from its output why such a job would wait for ever, or "". It returns nothing
	// if Submit refuses what asks for more.
	Limits(args []string) (command Command, exceeds func(stdout string) string)
	// List returns the command that lists all jobs of this user.
	List(user string) Command
	// Rows reads its output.
	Rows(stdout string) ([]Row, error)
	// Past returns the command that tells of jobs that are no longer listed, or why listed ones
	// can never start, or nothing.
	Past(jobs []string) Command
	// Ends reads its output.
	Ends(stdout string) []Row
	// Cancel returns the command that ends tasks, given as returned by Task, and jobs, given by
	// their IDs. Those that are over are no error.
	Cancel(what []string) Command
	// Hold returns the command that keeps tasks and jobs, given as for Cancel, from starting, or
	// lets them start again. Those that run or are over are no error.
	Hold(what []string, held bool) Command
	// Throttle returns the command that bounds how many tasks of a job run at once. It is no error
	// if the job is over.
	Throttle(job string, n int) Command
	// Gapless reports whether a throttle only counts while the tasks that wait are one range.
	Gapless() bool
	// ByHand returns what people type to cancel these, and jobs of which only the name is known.
	ByHand(what []string) string
	// Nodes returns the commands that list the nodes, and who is on them.
	Nodes() []Command
	// ReadNodes reads their output.
	ReadNodes(stdout []string) ([]Node, error)
	// Try returns the command that says what became of a submission with these arguments, and
	// submits nothing.
	Try(args []string) Command
	// Tried returns when such a job would begin from what that printed, "" if it does not say.
	Tried(text string) string
	// Exec returns the command that runs another one on GPUs, with this terminal if there is one.
	Exec(name string, args, argv []string, terminal bool) Command
	// Allocation returns the job that an environment belongs to, without ID if it belongs to none.
	Allocation(getenv func(string) string) Allocation
	// Show returns the command that describes such a job.
	Show(id string) Command
	// Shown reads its output. ok is false if that leaves open whether the job is alive.
	Shown(id, stdout string) (s Shown, ok bool)
	// Task names the n-th task of a job.
	Task(job string, n int) string
	// Keeps reports whether no job is ever forgotten that was accepted. So one that is gone, and
	// of whose end nothing is known, was cancelled.
	Keeps() bool
}

// A Command is a program with its arguments, and what to add to its environment. It is empty
// if there is nothing to run.
type Command struct {
	Args []string
	Env  []string
}

// An Array is what Submit submits.
type Array struct {
	Name     string
	State    string // the state folder
	Tasks    int
	Throttle int  // how many run at once; 0 for any number
	Held     bool // until they are released
}

// Asked is what Args maps. Without a Limit, the cluster's own holds.
type Asked struct {
	engine.Ask
	Small []string // nodes whose GPUs are too small for it
}

// Excluded returns the nodes that must not run it.
func (a Asked) Excluded() []string {
	if list := a.Options["exclude"]; list != "" {
		return append(strings.Split(list, ","), a.Small...)
	}
	return a.Small
}

// A Refusal is why a submission was refused.
type Refusal int

// What a refusal means.
const (
	Unclear     Refusal = iota // it may have been accepted
	Never                      // these jobs will always be refused
	Fewer                      // too many for one array
	Full                       // too many are submitted; fewer may be accepted, or later
	Later                      // nothing like it is accepted now
	Unreachable                // nothing was sent
)

// A Row is a task as the cluster lists it.
type Row struct {
	Name      string // of its job
	Job       string // ID
	First     int    // the tasks it stands for, from 0
	Last      int
	Rest      bool // it stands for all tasks of the job without a row of their own
	State     State
	Reason    string    // why it waits
	Expected  time.Time // when the first of these tasks begins, by the cluster's own estimate; zero if it says nothing
	Never     bool      // and it can never start as it was submitted; without a Reason, Past has that
	Suspended bool      // it has begun, and stands still
	Node      string
	Throttle  int    // of the job; 0 if it is not known
	Mixed     bool   // it stands for tasks that wait for different reasons, such as some that are held
	GPUs      int    // of each of these tasks
	Raw       int    // wait status, once it is over
	Word      string // the cluster's own for State
}

// State is how a task is, for the cluster.
type State int

// The states of a task.
const (
	Gone      State = iota // not listed
	Pending                // it waits for its turn
	Stuck                  // it waits for ever: somebody has to act
	Active                 // it is about to begin or to end, or suspended
	Runs                   // it was given to its node
	Completed              // the states from here on are final
	Failed
	TimedOut
	OutOfMemory
	Cancelled
	Preempted
	NodeFailed
)

// final reports whether a task in this state is over.
func (s State) final() bool { return s >= Completed }

// queued reports whether a task in this state waits.
func (s State) queued() bool { return s == Pending || s == Stuck }

// Tasks reads "3", "8-9,12", "0-9:3" or "0-99%5".
func Tasks(text string) (ranges [][2]int, err error) {
	text, _, _ = strings.Cut(text, "%")
	for part := range strings.SplitSeq(text, ",") {
		part, step, stepped := strings.Cut(part, ":")
		from, to, ranged := strings.Cut(part, "-")
		if !ranged {
			to = from
		}
		first, err1 := strconv.Atoi(from)
		last, err2 := strconv.Atoi(to)
		if err1 != nil || err2 != nil || last < first || first < 0 {
			return nil, fmt.Errorf("%q is no range", part)
		}
		if !stepped || step == "1" {
			ranges = append(ranges, [2]int{first, last})
			continue
		}
		by, err := strconv.Atoi(step)
		if err != nil || by < 1 || (last-first)/by > 1e6 {
			return nil, fmt.Errorf("%q is no step", step)
		}
		for n := first; n <= last; n += by {
			ranges = append(ranges, [2]int{n, n})
		}
	}
	return ranges, nil
}
