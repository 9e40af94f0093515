package sched

import (
	"time"

	"gpurun/gpu"
	"gpurun/jobspec"
	"gpurun/state"
)

// Evidence is what the file system says of a job whose last end was a success.
// The edge gathers it once, before the core is made.
type Evidence struct {
	MissingOutput string // an output that is not there
	Overwritten   string // an output that another command has written since: for plan, and runs nothing again
	Unsearched    string // an output or input that could not be searched to its end, and why: runs nothing again
	ChangedInput  string // an input that is newer than the job's start, with other content
	LogDeleted    bool   // the job file names the log, the job has no outputs, the log is gone
}

// Options are what the command line asks of a run.
type Options struct {
	Selected func(id int) bool // nil for all: --only, --skip, --tag
	Forced   func(id int) bool // nil for none: --force
	NoWait   bool              // finish as soon as nothing more can start at once
	CPUs     int               // cores of this run; 0 for no limit
	Memory   gpu.Bytes         // host memory of this run; 0 for no limit
	UID      int
	Strays   bool // the GPUs are real: jobs can be on ones that they were not given
	Sim      bool // the GPUs are simulated: a success on such counts
}

// Core is the scheduler's state. One goroutine owns it.
type Core struct {
	b        *jobspec.Batch
	h        *state.History
	pool     *gpu.Pool // nil where no device is there
	opts     Options
	evidence func(id int) Evidence

	now Now      // of the event that is being worked off
	out []Action // what it comes to

	jobs   []job
	counts [phaseCount]int // of selected jobs
	total  int             // selected
	graph  graph
	ranks  ranks
	notes  map[int32]string // what a verdict says, where its code is not enough
	ended  []int32          // jobs that have ended and whose needers have not been told yet

	classes classes
	queues  []queue
	backoff backoffs // jobs that wait for their retry
	grown   map[int32]gpu.Bytes

	breaker breaker
	alike   state.Grouping // of jobs that have finally failed in this run

	live   attempts
	preps  map[int32]*attempt // by job: prepared at the moment
	asked  int                // adopted attempts without an answer
	begun  bool               // every adopted attempt has been answered, and all jobs are judged
	cpus   int                // set aside by live attempts
	memory gpu.Bytes
	onGPUs int // live attempts that hold a GPU

	refill   bool // something has changed that may let a job start
	looked   bool // in this Step, by a reading
	waiter   waiter
	cramped  cramped
	excluded []gpu.UUID // given up for this run by stop --gpu
	shunned  []shun     // lost to another run a moment ago
	refusals int        // of these in a row
	reads    reads
	pidsTell bool    // a job has been seen on its own GPU: the driver's pids are ours
	known    []guest // others on GPUs of this run's jobs, who have been spoken of or were there before
	past     []past  // claims that are kept for a hand-over, the oldest first

	draining string // why nothing more starts, or ""
	stopping bool   // and what runs is being ended
	broken   bool   // the ledger cannot be written
	gaveUp   bool
	vain     state.Snapshot // the head that was waited for in vain when the run gave up, and why
	wakeAt   time.Duration
	finished bool
}

// New makes the core of a run. history is what the ledgers said; the core takes
// it over and keeps it up to date. pool is nil where no device is there.
func New(b *jobspec.Batch, history *state.History, evidence func(id int) Evidence, pool *gpu.Pool, opts Options) *Core {
	c := &Core{b: b, h: history, pool: pool, opts: opts, evidence: evidence}
	c.jobs = make([]job, len(b.Jobs))
	c.notes = map[int32]string{}
	c.grown = map[int32]gpu.Bytes{}
	c.preps = map[int32]*attempt{}
	c.live.byID = map[string]*attempt{}
	c.classes = newClasses()
	c.breaker.families = map[uint64]*family{}
	c.waiter.id, c.waiter.first = -1, -1
	c.cramped.id, c.cramped.first = -1, -1
	c.graph = newGraph(b)
	c.ranks = newRanks(b)
	c.queues = newQueues(b)
	for i := range c.jobs {
		c.jobs[i].class = -1
		if opts.Selected == nil || opts.Selected(i) {
			c.jobs[i].phase = pending
			c.total++
			c.counts[pending]++
		}
	}
	c.judge()
	return c
}

// Phase is where a job is now; "" for one that is not selected.
func (c *Core) Phase(id int) state.Phase { return c.jobs[id].phase.public() }

// record says a fact, and makes it true.
func (c *Core) record(file int, job int32, f state.Fact) {
	c.do(Record{File: file, Job: int(job), Fact: f})
	c.apply(file, f)
}

func (c *Core) do(a Action) { c.out = append(c.out, a) }
