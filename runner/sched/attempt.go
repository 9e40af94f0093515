package sched

import (
	"strconv"
	"time"

	"gpurun/gpu"
	"gpurun/state"
)

// attempt is one that holds resources: from its grant, through preparation and running,
// until its end.
type attempt struct {
	job    int32  // -1 if no job of the batch has its key
	file   int    // index of the file whose ledger has it
	uniID  string // "" while being prepared
	n      int32  // 1, 2, …
	grant  gpu.Grant
	cpus   int
	memory gpu.Bytes
	since  time.Duration // CLOCK_BOOTTIME of its grant
	name   string        // its job's name and key when it started
	key    string
	log    string
	start  time.Time
	pid    int

	background string // what keeps it running after its commands, or ""

	stop    string    // why it is being stopped, or ""
	stopAt  time.Time // when this run recorded the stop
	prior   bool      // an earlier run decided the stop
	adopted bool
	outrun  bool  // another run took its GPUs first
	asked   bool  // the engine has not yet reported on it
	follows int32 // job of the same name that must wait for it; -1 for none

	seats    []seat        // parallel to the grant's GPUs; nil before the first reading
	peak     gpu.Bytes     // the most on one GPU
	readings int           // readings that showed what it uses
	lookAt   time.Duration // when to look for it on other GPUs next
	looks    int           // number of such looks so far
	strayed  []gpu.UUID    // other GPUs on which it was seen
	stray    string        // the message about that
	came     []guest       // other processes that came to its GPUs while it ran

	prev, next *attempt
}

// hold returns the name under which the pool knows the attempt.
func (a *attempt) hold() string {
	if a.uniID == "" {
		return "prepare " + strconv.Itoa(int(a.job))
	}
	return a.uniID
}

// attempts is a list of all live attempts, in the order of their grants.
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

// take reserves everything that an attempt holds.
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

// giveBack undoes take. A stuck attempt keeps its GPUs: nobody knows what is still
// writing there.
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
		case a.outrun: // earlier readings of its devices are out of date
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

// moveOn lets jobs proceed that waited for an attempt, once the attempt's own job has
// moved.
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

// apply applies a fact to the history and to the live attempt it concerns. Live and
// replayed facts take the same path; see New.
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
