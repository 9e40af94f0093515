package sched

import (
	"time"

	"gpurun/gpu"
	"gpurun/jobspec"
	"gpurun/state"
)

// Evidence is what the file system shows about a job that last ended in success. The edge
// gathers it once, before the core is created.
type Evidence struct {
	MissingOutput string // an output that does not exist
	Overwritten   string // an output that another command has written since; shown by plan, reruns nothing
	Unsearched    string // an output or input whose search was cut short, and why; reruns nothing
	ChangedInput  string // an input that is newer than the job's start and has different content
	LogDeleted    bool   // the job has no outputs, and the log that its file names is gone
}

// Options are a run's command-line options.
type Options struct {
	Selected func(id int) bool // nil for all: --only, --skip, --tag
	Forced   func(id int) bool // nil for none: --force
	NoWait   bool              // finish as soon as nothing can start immediately
	CPUs     int               // cores for this run; 0 means no limit
	Memory   gpu.Bytes         // host memory for this run; 0 means no limit
	Strays   bool              // watch for strays: the GPUs are real, and jobs can use ones they were not given
	Sim      bool              // the GPUs are simulated, so successes on simulated GPUs count

	Placement gpu.Placement // who grants GPUs
}

// Core is the scheduler's state. One goroutine owns it.
type Core struct {
	b        *jobspec.Batch
	h        *state.History
	pool     *gpu.Pool // nil if there are no devices that this run grants
	opts     Options
	evidence func(id int) Evidence

	now Now      // time of the current event
	out []Action // actions in response to it

	jobs   []job
	counts [phaseCount]int // selected jobs by phase
	total  int             // selected
	graph  graph
	ranks  ranks
	notes  map[int32]string // verdict texts that a code alone cannot express
	ended  []int32          // ended jobs whose dependents have not been updated yet

	classes classes
	queues  []queue
	backoff backoffs // jobs waiting for a retry
	grown   map[int32]gpu.Bytes

	breaker breaker
	alike   state.Grouping // groups the jobs that failed for good in this run

	live   attempts
	preps  map[int32]*attempt // by job: attempts being prepared
	asked  int                // adopted attempts without an answer
	begun  bool               // all adopted attempts have been answered and all jobs judged
	cpus   int                // reserved by live attempts
	memory gpu.Bytes
	onGPUs int // live attempts that hold a GPU

	refill   bool // a change may let some job start
	waiter   waiter
	cramped  cramped
	excluded []gpu.UUID // released for this run by stop --gpu
	shunned  []shun     // just lost to another run
	refusals int        // such losses in a row
	reads    reads
	pidsTell bool    // a job was seen on its own GPU, so the driver reports pids of our namespace
	known    []guest // other processes on this run's GPUs, already reported or there before its jobs
	comers   int     // number of guests so far
	past     []past  // claims kept for a hand-over, oldest first

	draining string // why nothing more starts, or ""
	stopping bool   // and running jobs are being stopped
	broken   bool   // the ledger cannot be written
	gaveUp   bool
	vain     state.Snapshot // when the run gave up: the head it was waiting for, and why
	wakeAt   time.Duration
	finished bool
}

// New creates the core of a run. The core takes ownership of history, which holds what
// the ledgers recorded, and keeps it up to date. pool is nil if there are no devices.
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

// Phase returns a job's current phase, or "" if the job is not selected.
func (c *Core) Phase(id int) state.Phase { return c.jobs[id].phase.public() }

// record emits a fact and applies it.
func (c *Core) record(file int, job int32, f state.Fact) {
	c.do(Record{File: file, Job: int(job), Fact: f})
	c.apply(file, f)
}

func (c *Core) do(a Action) { c.out = append(c.out, a) }
