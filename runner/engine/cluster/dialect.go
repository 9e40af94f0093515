package cluster

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"gpurun/gpu"
	"gpurun/runner/engine"
)

// A Dialect describes one kind of cluster: its commands, their output, and the variables of its
// nodes. It runs nothing itself.
type Dialect interface {
	// Name returns the engine's name on the command line and in the ledger.
	Name() string
	// Traits returns the properties that are independent of jobs.
	Traits(options map[string]string) Traits
	// Allocation returns the cluster job that an environment describes, with ID "" if there is
	// none.
	Allocation(getenv func(string) string) Allocation
	// Args returns a job's request as arguments for a submission. It returns an error if a key has
	// no counterpart on the cluster.
	Args(a JobRequest) ([]string, error)
	// Task names the n-th task of a job.
	Task(job string, n int) string

	// Submit returns the command that reads a script and submits it as an array.
	Submit(a Array, args []string) Command
	// Answer parses the output of Submit: the job's ID, or else the kind of refusal and the reason
	// with a fix. If the output gives no reason, Try may find one.
	Answer(stdout, stderr string) (job string, is Refusal, why string)
	// Limits asks whether a job with these arguments would be accepted but never start, and why.
	// The query has no command if Submit itself refuses such jobs.
	Limits(args []string) Query[string]
	// Try asks when a job with these arguments would begin, without submitting it; "" if the
	// cluster has no estimate.
	Try(args []string) Query[string]
	// Exec returns a command that runs argv on GPUs of the cluster, attached to this terminal if
	// there is one.
	Exec(name string, args, argv []string, terminal bool) Command

	// List asks for all jobs of a user.
	List(user string) Query[[]Row]
	// Past asks how jobs that are no longer listed ended, or why listed ones can never start.
	Past(jobs []string) Query[[]Row]
	// Show asks about an allocation.
	Show(id string) Query[Shown]
	// Nodes asks for the nodes and their users.
	Nodes() Query[[]Node]

	// Order returns the command that applies an order to tasks (named by Task) and jobs (named by
	// ID). It is not an error if a target has already ended. Only a Throttle uses n.
	Order(do Order, what []string, n int) Command
	// ByHand returns the command that a user types to cancel these targets, which may be job names.
	ByHand(what []string) string
}

// Traits are properties of a cluster that are independent of jobs. Variable patterns have the
// syntax of path.Match.
type Traits struct {
	Keeps     bool     // it never forgets an accepted job, so one that disappears without an end was cancelled
	Gapless   bool     // a throttle works only while the waiting tasks form one range
	Daemon    bool     // tasks have the environment of the node's daemon, not of the submission
	Sets      []string // variables that the cluster sets on a node
	Arguments []string // variables of a job that the cluster's commands take for arguments
	Deaf      bool     // the command of Exec ignores SIGTERM and SIGHUP
	Immediate string   // what to suggest instead of exec --no-wait
	Granted   string   // variable that may list a job's GPUs on a node that does not set CUDA_VISIBLE_DEVICES; "" for none
}

// Dialects lists the dialects of all supported clusters.
type Dialects []Dialect

// An Order is an operation on tasks and jobs in a cluster.
type Order int

// The orders.
const (
	Cancel   Order = iota
	Hold           // prevent the start; running tasks continue
	Release        // undo Hold
	Throttle       // bound how many tasks of a job run concurrently
)

// A Command is a program with its arguments and additions to its environment. The zero Command
// runs nothing.
type Command struct {
	Args []string
	Env  []string
}

// A Query is a command that changes nothing, with a parser for its output.
type Query[T any] struct {
	Command
	Read func(stdout string) (T, error)
}

// Run runs the command, if there is one.
func (q Query[T]) Run() (answer T, err error) {
	if len(q.Args) == 0 {
		return answer, nil
	}
	out, _, err := q.run()
	if err != nil {
		return answer, err
	}
	return q.Read(out)
}

// An Array describes an array job for Submit.
type Array struct {
	Name     string
	State    string // the state folder
	Tasks    int
	Throttle int  // maximum number of concurrent tasks; 0 for any number
	Held     bool // its tasks wait until they are released
}

// A JobRequest is the input of Dialect.Args. If Limit is 0, the cluster's own limit applies.
type JobRequest struct {
	engine.Request
	Small []string // nodes whose GPUs are too small for it
}

// Excluded returns the nodes that must not run the job.
func (a JobRequest) Excluded() []string {
	if list := a.Options["exclude"]; list != "" {
		return append(strings.Split(list, ","), a.Small...)
	}
	return a.Small
}

// A Refusal classifies why a submission was refused.
type Refusal int

// Kinds of refusals.
const (
	Unclear     Refusal = iota // it may have been accepted
	Never                      // these jobs will always be refused
	Fewer                      // too many for one array
	Full                       // too many are submitted; fewer may be accepted, or these later
	Later                      // no such job is accepted now
	Unreachable                // nothing was sent
)

// A Row is a task, or a range of tasks, in the cluster's list of jobs.
type Row struct {
	Name      string // name of its job
	Job       string // ID
	First     int    // the row's tasks, numbered from 0
	Last      int
	Rest      bool // the row covers all tasks of the job that have no row of their own
	State     State
	Reason    string    // why it waits
	Expected  time.Time // the cluster's estimate of the first task's start; zero if it has none
	Never     bool      // it can never start as submitted; if Reason is "", Past returns one
	Suspended bool      // it has begun and is suspended
	Node      string
	Throttle  int    // throttle of the job; 0 if unknown
	Mixed     bool   // its tasks wait for different reasons; for example, some are held
	Unheld    string // if Mixed: the reasons of tasks that are not held
	GPUs      int    // per task
	Raw       int    // wait status, once it is over
	Word      string // the cluster's own word for State
}

// State is a task's state in the cluster.
type State int

// The states of a task.
const (
	Gone      State = iota // not listed
	Pending                // it waits for its turn
	Stuck                  // it waits until a person acts
	Active                 // it is about to begin or to end, or it is suspended
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

// A Node is a host in the cluster's list of nodes.
type Node struct {
	Name      string
	State     string   // in the cluster's own words
	Open      bool     // jobs can start on it
	Parts     []string // partitions or queues that contain it
	GPUs      int
	Used      int // number of GPUs that jobs use
	Occupants []Occupant
}

// An Occupant is a user with jobs on a node.
type Occupant struct {
	User string
	Jobs int
	GPUs int
}

// AddJob adds a user's job with its GPUs.
func (n *Node) AddJob(user string, gpus int) {
	i := slices.IndexFunc(n.Occupants, func(o Occupant) bool { return o.User == user })
	if i < 0 {
		i = len(n.Occupants)
		n.Occupants = append(n.Occupants, Occupant{User: user})
	}
	n.Occupants[i].Jobs++
	n.Occupants[i].GPUs += gpus
}

// Tasks parses a list of tasks, such as "3", "8-9,12", "0-9:3" or "0-99%5", into ranges.
func Tasks(text string) (ranges [][2]int, err error) {
	text, _, _ = strings.Cut(text, "%")
	for part := range strings.SplitSeq(text, ",") {
		part, step, stepped := strings.Cut(part, ":")
		first, last, ok := gpu.Range(part)
		if !ok {
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
