package cluster

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	"gpurun/runner/engine"
)

// A Dialect is what one kind of cluster calls things: its commands, what their output means, and the
// variables of its nodes. It runs nothing itself.
type Dialect interface {
	// Name is the engine's, on the command line and in the ledger.
	Name() string
	// Traits returns what depends on no job.
	Traits(options map[string]string) Traits
	// Allocation returns the job that an environment belongs to, without ID if it belongs to none.
	Allocation(getenv func(string) string) Allocation
	// Args returns what a job's demands are in a submission, or which key has no counterpart.
	Args(a Asked) ([]string, error)
	// Task names the n-th task of a job.
	Task(job string, n int) string

	// Submit returns the command that reads a script and submits it as an array.
	Submit(a Array, args []string) Command
	// Answer reads what that printed: the job's ID, "" if it was not accepted; then whether nothing
	// was submitted for certain, why, and what to do about it. Without a reason Try has that.
	Answer(stdout, stderr string) (job string, is Refusal, why string)
	// Limits asks why a job with these arguments would be accepted and wait for ever. It has no
	// command if Submit refuses such a job.
	Limits(args []string) Question[string]
	// Try asks what would become of such a job, and submits nothing: when it would begin, from all
	// that is printed, "" if that is not said.
	Try(args []string) Question[string]
	// Exec returns the command that runs another one on GPUs, with this terminal if there is one.
	Exec(name string, args, argv []string, terminal bool) Command

	// List asks for all jobs of this user.
	List(user string) Question[[]Row]
	// Past asks about jobs that are no longer listed, or why listed ones can never start.
	Past(jobs []string) Question[[]Row]
	// Show asks about an allocation.
	Show(id string) Question[Shown]
	// Nodes asks for the nodes, and who is on them.
	Nodes() Question[[]Node]

	// Order returns the command that does something with tasks, given as returned by Task, and jobs,
	// given by their IDs. Those that are over are no error. Only a Throttle has an n.
	Order(do Order, what []string, n int) Command
	// ByHand returns what people type to cancel these, and jobs of which only the name is known.
	ByHand(what []string) string
}

// Traits are what depends on no job. Patterns of variables are those of path.Match.
type Traits struct {
	Keeps     bool     // no job is ever forgotten that was accepted: one that is gone without an end was cancelled
	Gapless   bool     // a throttle only counts while the tasks that wait are one range
	Daemon    bool     // tasks have the environment of the node's daemon, not of the submission
	Sets      []string // variables that a node has from the cluster
	Arguments []string // variables of a job that the cluster's commands take for arguments
	Deaf      bool     // the command of Exec ignores SIGTERM and SIGHUP
	Immediate string   // what to do instead of exec --no-wait
	Granted   string   // variable that may have the numbers of a job's GPUs on a node that does not set CUDA_VISIBLE_DEVICES; "" for none
}

// Dialects are those of all clusters that gpurun knows.
type Dialects []Dialect

// An Order is what a cluster is to do with tasks and jobs.
type Order int

// The orders.
const (
	Cancel   Order = iota
	Hold           // keep from starting; those that run go on
	Release        // let start again
	Throttle       // bound how many tasks of a job run at once
)

// A Command is a program with its arguments, and what to add to its environment. It is empty
// if there is nothing to run.
type Command struct {
	Args []string
	Env  []string
}

// A Question is a command that changes nothing, and what reads its output.
type Question[T any] struct {
	Command
	Read func(stdout string) (T, error)
}

// Ask runs the command.
func (q Question[T]) Ask() (answer T, err error) {
	out, _, err := q.run()
	if err != nil {
		return answer, err
	}
	return q.Read(out)
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
	engine.Request
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
			return nil, fmt.Errorf("%q is not a range", part)
		}
		if !stepped || step == "1" {
			ranges = append(ranges, [2]int{first, last})
			continue
		}
		by, err := strconv.Atoi(step)
		if err != nil || by < 1 || (last-first)/by > 1e6 {
			return nil, fmt.Errorf("%q is not a step", step)
		}
		for n := first; n <= last; n += by {
			ranges = append(ranges, [2]int{n, n})
		}
	}
	return ranges, nil
}
