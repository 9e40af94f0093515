package sched

import (
	"strconv"
	"time"

	"gpurun/gpu"
	"gpurun/state"
)

// attempt is one that holds something: from its grant on, while it is prepared,
// while it runs, until its end.
type attempt struct {
	job    int32  // -1 when the batch has no job of its key
	file   int    // whose ledger has it
	uniID  string // "" while it is prepared
	n      int32  // 1, 2, …
	grant  gpu.Grant
	cpus   int
	memory gpu.Bytes
	since  time.Duration // CLOCK_BOOTTIME of its grant
	name   string        // of its job, and its key, when it started
	key    string
	log    string
	start  time.Time
	pid    int

	background string // what it goes on as after its commands, or ""

	stop    string    // why it is being stopped, or ""
	stopAt  time.Time // when this run recorded that
	prior   bool      // and an earlier run decided so
	adopted bool
	outrun  bool  // another run was quicker
	asked   bool  // the engine has not yet said what has become of it
	follows int32 // a job of the same name that may start only after it; -1 for none

	seats    []seat        // parallel to the grant's GPUs, from the first reading on
	peak     gpu.Bytes     // the most on one GPU
	readings int           // that told what it uses
	lookAt   time.Duration // when it is looked for on other GPUs
	looks    int           // done
	strayed  []gpu.UUID    // GPUs on which it has been seen and that are not its own
	stray    string        // and what was said of that
	came     []guest       // others who came to its GPUs while it was there

	prev, next *attempt
}

// hold is the name under which the pool knows the attempt.
func (a *attempt) hold() string {
	if a.uniID == "" {
		return "prepare " + strconv.Itoa(int(a.job))
	}
	return a.uniID
}

// attempts are all live ones, in the order of their grants.
type attempts struct {
	byID        map[string]*attempt // by uni_id
	first, last *attempt
	n           int
}

func (l *attempts) add(a *attempt) {
	a.prev = l.last
	if l.last != nil {
		l.last.next = a
	} else {
		l.first = a
	}
	l.last = a
	l.n++
}

func (l *attempts) remove(a *attempt) {
	if a.prev != nil {
		a.prev.next = a.next
	} else {
		l.first = a.next
	}
	if a.next != nil {
		a.next.prev = a.prev
	} else {
		l.last = a.prev
	}
	a.prev, a.next = nil, nil
	l.n--
	delete(l.byID, a.uniID)
}

// take sets aside everything that an attempt holds.
func (c *Core) take(a *attempt) {
	c.live.add(a)
	if a.uniID != "" {
		c.live.byID[a.uniID] = a
	}
	c.cpus += a.cpus
	c.memory += a.memory
	if len(a.grant.UUIDs) > 0 && c.pool != nil {
		c.onGPUs++
		c.pool.Hold(a.hold(), a.grant)
		c.reads.taken(a.grant.UUIDs)
	}
	if a.job >= 0 {
		c.occupy(a.job, 1)
	}
	if a.follows >= 0 {
		c.jobs[a.follows].held++
	}
}

// giveBack undoes take. What is stuck keeps its GPUs: nobody knows what still
// writes there.
func (c *Core) giveBack(a *attempt, stuck bool) {
	c.live.remove(a)
	c.cpus -= a.cpus
	c.memory -= a.memory
	if len(a.grant.UUIDs) > 0 && c.pool != nil {
		c.onGPUs--
	}
	if len(a.grant.UUIDs) > 0 && c.pool != nil && !stuck {
		switch {
		case a.uniID != "":
			c.reads.freed(c.now.Boot, c.pool.Release(c.now.Boot, a.hold()))
			c.past = append(c.past, past{a.uniID, a.grant.UUIDs})
		case a.outrun: // what was read of its devices no longer holds
			c.pool.Yield(c.pool.Release(c.now.Boot, a.hold()))
		default:
			c.pool.Undo(a.hold())
		}
	}
	if a.job >= 0 {
		c.occupy(a.job, -1)
	}
	if a.follows >= 0 {
		c.jobs[a.follows].held--
	}
	c.refill = true
}

// moveOn lets what waited for an attempt go on, once its own job has been moved.
func (c *Core) moveOn(a *attempt) {
	if a.follows >= 0 {
		c.consider(a.follows)
	}
	if a.job >= 0 {
		if q := c.b.Jobs[a.job].Queue; q >= 0 {
			c.queueMoves(q)
		}
	}
}

// apply makes a fact true: what the history folds, and what a live attempt
// remembers of itself. Live and replayed facts take the same way; see New.
func (c *Core) apply(file int, f state.Fact) {
	c.h.Apply(file, f)
	a := c.live.byID[f.UniID]
	if a == nil {
		return
	}
	switch f.Kind {
	case state.KindStart:
		a.start, a.log, a.n = f.Time, f.Log, int32(f.Attempt)
	case state.KindRunning:
		a.pid = f.PID
	case state.KindStop:
		if a.stop == "" {
			a.stop, a.stopAt = f.Why, f.Time
		}
	}
}
