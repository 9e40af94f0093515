package sched

import (
	"cmp"
	"fmt"
	"time"

	"gpurun/gpu"
	"gpurun/state"
)

// What jobs of a family took says what the next of it will take: how much memory is set
// aside for one that does not say, which job is the longest, and how long the rest of the
// batch takes.

// lessons is what a run goes by besides the history's families.
type lessons struct {
	family   []uint64        // by job, 0 if nobody has asked for it; nil at first
	read     bool            // seconds has what the history says
	seconds  []float32       // that jobs of this batch took, for those of unknown families
	expected []time.Duration // by job: what its family takes, 0 if unknown; nil if none is known
	ahead    time.Duration   // the sum of expected over jobs that wait for their start
	foreseen int             // number of those whose family is known
	hogs     bool            // some job was said to take all of a GPU
}

// Unknown is what a job is expected to take if there is nothing to go by.
const Unknown = time.Hour

// maxSeconds bounds how many jobs say what is usual in a batch.
const maxSeconds = 1000

// familyOf returns the hash of a job's family.
func (c *Core) familyOf(id int32) uint64 {
	if c.lessons.family == nil {
		c.lessons.family = make([]uint64, len(c.jobs))
	}
	at := &c.lessons.family[id]
	if *at == 0 {
		*at = c.b.Jobs[id].Family()
	}
	return *at
}

// familyName returns the family of a job as facts have it; "" for none.
func (c *Core) familyName(id int32) string {
	hash := c.familyOf(id)
	if hash == 0 {
		return ""
	}
	return state.FamilyName(hash, c.opts.Sim && c.spec(id).Request.Max > 0)
}

// kin returns what is known of a job's family, or nil.
func (c *Core) kin(id int32) *state.Family {
	if id < 0 || !c.b.Settings.Learn {
		return nil
	}
	return c.h.Family(c.file(id), c.familyName(id))
}

// open reports whether a job waits for its start in this run.
func (p phase) open() bool { return p == pending || p == ready || p == waiting }

// recollect reads what the history says of the batch, once.
func (c *Core) recollect() {
	l := &c.lessons
	if l.read || !c.b.Settings.Learn {
		return
	}
	l.read = true
	for file := range c.b.Files {
		for _, f := range c.h.Families(file) {
			if len(l.seconds) < maxSeconds {
				l.seconds = append(l.seconds, f.Seconds...)
			}
		}
	}
}

// foresee says when the run begins what its jobs are expected to take.
func (c *Core) foresee() {
	l := &c.lessons
	if c.counts[pending] == 0 {
		return
	}
	c.recollect()
	if len(l.seconds) == 0 {
		return
	}
	l.expected = make([]time.Duration, len(c.jobs))
	for i := range c.jobs {
		if id := int32(i); c.jobs[i].phase.open() {
			l.expected[i], _ = c.kin(id).Took()
			c.waits(id, 1)
		}
	}
	c.rank()
}

// waits counts a job among those that wait for their start, or with by -1 no longer.
func (c *Core) waits(id int32, by int) {
	l := &c.lessons
	if l.expected == nil || l.expected[id] == 0 {
		return
	}
	l.ahead += time.Duration(by) * l.expected[id]
	l.foreseen += by
}

// usual returns what is usual in this batch; 0 if that is unknown.
func (l *lessons) usual() time.Duration { return state.Quantile(l.seconds, 0.5) }

// takes returns what a job that has not started is expected to take, whatever that is
// worth.
func (c *Core) takes(id int32) time.Duration {
	l := &c.lessons
	if l.expected != nil && l.expected[id] > 0 {
		return l.expected[id]
	}
	return cmp.Or(l.usual(), Unknown)
}

// Expected returns what a job is expected to take, and how that is known: from runs of
// jobs like it, else from those of the batch. It is 0 if there is nothing to go by.
func (c *Core) Expected(id int) (takes time.Duration, runs int) {
	if f := c.kin(int32(id)); f != nil && len(f.Seconds) > 0 {
		median, _ := f.Took()
		return median, len(f.Seconds)
	}
	c.recollect()
	return c.lessons.usual(), 0
}

// eta returns how long the rest of the run takes, if as many jobs run at once as now; 0
// if there is nothing to go by, as for jobs that already take longer than what is known.
func (c *Core) eta() time.Duration {
	l, n := &c.lessons, time.Duration(len(c.live.all))
	if n == 0 {
		return 0
	}
	usual := l.usual()
	work, longest := l.ahead, time.Duration(0)
	if more := c.counts[pending] + c.counts[ready] + c.counts[waiting] - l.foreseen; more > 0 {
		if usual == 0 {
			return 0
		}
		work += time.Duration(more) * usual
	}
	for _, a := range c.live.all {
		ran := time.Duration(0)
		median, _ := c.kin(a.job).Took()
		if !a.start.IsZero() {
			ran = c.now.Wall.Sub(a.start)
		}
		if median == 0 && ran >= usual { // what is usual says nothing of this job
			return 0
		}
		rest := max(cmp.Or(median, usual)-ran, 0)
		work += rest
		longest = max(longest, rest)
	}
	if work == 0 {
		return 0
	}
	return max(work/n, longest, time.Second)
}

// Learned returns what is set aside on each GPU for a job that does not say what it
// needs, and how many runs of jobs like it say so; 0 if they do not say either.
func (c *Core) Learned(id int) (memory gpu.Bytes, runs int) {
	s := c.spec(int32(id))
	if s.Request.Max == 0 || !s.DefaultMemory && !s.LeastMemory {
		return 0, 0
	}
	memory, runs = c.kin(int32(id)).Memory()
	if runs == 0 {
		return 0, 0
	}
	if c.pool != nil {
		if most := c.most(s.Request); most > 0 {
			memory = min(memory, most)
		}
	}
	if s.LeastMemory && memory <= s.Request.Memory {
		return 0, 0 // somebody said that it is to be more
	}
	return memory, runs
}

// Request returns what a job asks for now.
func (c *Core) Request(id int) gpu.Request { return c.request(int32(id)) }

// learn records the end of an attempt, and has the jobs of its family that are ready ask
// for what was learned from it.
func (c *Core) learn(a *attempt, f state.Fact) {
	before, _ := c.kin(a.job).Memory()
	c.record(a.file, a.job, f)
	fam := c.kin(a.job)
	if fam == nil {
		return
	}
	if f.State == state.Succeeded && len(c.lessons.seconds) < maxSeconds {
		c.lessons.seconds = append(c.lessons.seconds, float32(f.Seconds))
	}
	c.noteHog(a, f, fam)
	if now, _ := fam.Memory(); now == before {
		return
	}
	hash := c.familyOf(a.job)
	for i := range c.jobs {
		id := int32(i)
		if c.jobs[i].phase == ready && c.familyOf(id) == hash && c.classOf(id) != c.jobs[i].class {
			c.makeReady(id)
		}
	}
}

// hogShare is how much of a GPU, in percent, a job took that had it to itself, if it most
// likely took what it could get: JAX takes three quarters, TensorFlow nearly all.
const hogShare = 70

// noteHog says once why nothing is learned from a job that took what it could get.
func (c *Core) noteHog(a *attempt, f state.Fact, fam *state.Family) {
	s := c.spec(a.job)
	if !f.Preallocated || f.State != state.Succeeded || fam.Hogs > 1 || c.lessons.hogs || !s.DefaultMemory && !s.LeastMemory {
		return
	}
	c.lessons.hogs = true
	c.do(Warn{Text: fmt.Sprintf("%s took %s of %s, which it had to itself, as JAX and TensorFlow do whatever they need; so nothing is learned from it: "+
		"set gpu_memory, or have it allocate as it goes (XLA_PYTHON_CLIENT_PREALLOCATE=false, TF_FORCE_GPU_ALLOW_GROWTH=true)",
		a.name, f.PeakMemory.Round(), gpuNumbers(a.grant.Indices))})
}
