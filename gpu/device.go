package gpu

import (
	"slices"
	"time"
)

const (
	// slack is how much memory may be in use on a device that counts as empty:
	// displays and idle contexts of the driver's own take some.
	slack = 512 * MiB

	// backFor is how long a device counts as just got back.
	backFor = 30 * time.Second

	briefly = 3 * time.Second  // utilisation is judged over this,
	atLeast = 60 * time.Second // or over this, where another user's process is
)

// A device is what the pool knows of one Device. The fields below the readings
// are worked out by tally, so that judging a request costs next to nothing.
type device struct {
	Device
	managed  bool
	reserved bool // for others, by its index

	read      bool          // at least once
	at        time.Duration // of the newest reading
	noReading string        // why there has been none since, of any device
	err       string        // why it does not answer
	mode      ComputeMode
	free      Bytes // as judged; -1 unknown
	used      Bytes // -1 unknown
	procs     []Process
	listed    bool  // procs have been read once at least
	quick     bool  // memory has been read since without them
	listFree  Bytes // free when procs were read, and what has been released of them since; -1 unknown
	listUsed  Bytes // used when procs were read, without what has been released
	samples   []Sample
	since     time.Duration // where the unbroken row of samples begins

	holds     []hold
	claims    []Claim
	released  time.Duration // of the last release
	awaited   bool          // released, and not read since
	back      bool          // just got back
	whole     Bytes         // will be free once the memory of the last release is back, by the list before it; -1 unknown
	most      Bytes         // free at most since the last release; -1 not read
	unyielded bool          // released by the only one that held it, and claimed still: no other claim can stand

	promised Bytes // to holds and claims, not yet taken
	ours     Bytes // so much more would be free, were this run's attempts gone
	foreign  *Process
	own      *Process // of this user, and of no attempt that is held here
	hidden   Bytes    // in use with no process to be seen, when more than slack; else 0
	peaks    [2]int   // highest sample of the last 3 s and 60 s; -1 unknown
	watched  time.Duration
}

// A hold is what one attempt of this run has of a device.
type hold struct {
	attempt string
	memory  Bytes
	share   bool
}

// observe takes over a reading taken at at.
func (d *device) observe(at time.Duration, r *Reading, gap time.Duration) {
	if at < d.at || at < d.released {
		return
	}
	d.read, d.at, d.noReading, d.err = true, at, "", r.Err
	if r.Err != "" {
		d.back = false
		return
	}
	d.awaited = false
	if r.Total > 0 {
		d.Total = r.Total
	}
	d.free, d.used = r.Free, r.Used
	if d.used < 0 && d.free >= 0 && d.Total > 0 {
		d.used = d.Total - d.free
	}
	d.back = d.back && !d.filled()
	d.watch(r.Samples, gap)
	d.quick = !r.Listed
	if r.Listed {
		d.mode = r.ComputeMode
		d.procs = append(d.procs[:0], r.Processes...)
		d.listed, d.listFree, d.listUsed = true, d.free, d.used
		d.back = d.back && d.vacant(at)
	} else if d.back && len(d.procs) == 0 && d.free > d.listFree {
		d.listFree, d.listUsed = d.free, d.used // come back since the list, on which nobody was
	}
}

// vacant says that a list just taken of a device that this run had got back
// shows nobody there: what is in use may still be the ended job's, whose memory
// some drivers give back long after its last process.
func (d *device) vacant(at time.Duration) bool {
	return at-d.released <= backFor && len(d.procs)+len(d.claims) == 0
}

// filled says that memory which was free since the release is in use again: an
// ended job takes none, so that somebody else has come, seen or unseen.
func (d *device) filled() bool {
	before := d.most
	d.most = max(before, d.free)
	return d.free >= 0 && before-d.free > slack
}

// lingering is how much of the memory in use, as of the last list, the job that
// has left the device may still have.
func (d *device) lingering() Bytes {
	if d.whole < 0 || d.listFree < 0 {
		return 0
	}
	return max(0, d.whole-d.listFree)
}

// strange is the memory in use that nobody visible has and that the job which has
// just ended here cannot have either.
func (d *device) strange(now time.Duration) Bytes {
	if d.returned(now) && d.hidden-d.lingering() <= slack {
		return 0
	}
	return d.hidden
}

// watch adds samples to the history of the last minute.
func (d *device) watch(samples []Sample, gap time.Duration) {
	for _, s := range samples {
		last, any := d.last()
		if any && s.At <= last {
			continue
		}
		if !any || s.At-last > gap {
			d.since = s.At
		}
		d.samples = append(d.samples, s)
	}
	last, any := d.last()
	old := 0
	for old < len(d.samples) && d.samples[old].At < d.at-atLeast {
		old++
	}
	d.samples = append(d.samples[:0], d.samples[old:]...)
	d.peaks, d.watched = [2]int{-1, -1}, 0
	if !any || d.at-last > gap {
		return // unknown for so long that it says nothing about now
	}
	d.watched = d.at - d.since
	for i, window := range []time.Duration{briefly, atLeast} {
		d.peaks[i] = peak(d.samples, d.at-window)
	}
}

// last is the time of the newest sample.
func (d *device) last() (time.Duration, bool) {
	if len(d.samples) == 0 {
		return 0, false
	}
	return d.samples[len(d.samples)-1].At, true
}

// peak is the highest of samples from the time from on, the newest in any case; -1 without any.
func peak(samples []Sample, from time.Duration) int {
	highest := -1
	for i, s := range samples {
		if s.At >= from || i == len(samples)-1 {
			highest = max(highest, s.Percent)
		}
	}
	return highest
}

// drop takes the hold of attempt away.
func (d *device) drop(attempt string) {
	kept := d.holds[:0]
	for _, h := range d.holds {
		if h.attempt != attempt {
			kept = append(kept, h)
		}
	}
	d.holds = kept
}

// release ends the hold of attempt.
func (d *device) release(now time.Duration, attempt string) {
	shared := slices.ContainsFunc(d.holds, func(h hold) bool { return h.share })
	d.drop(attempt)
	d.released, d.awaited = now, true
	d.back = len(d.holds) == 0
	if d.unyielded = d.back && !shared; d.unyielded {
		d.claims = d.claims[:0]
	}
	left := d.procs[:0]
	for _, pr := range d.procs {
		if pr.Attempt != attempt || attempt == "" {
			left = append(left, pr)
			continue
		}
		if pr.Memory > 0 && d.listFree >= 0 {
			d.listFree += pr.Memory
			d.listUsed -= pr.Memory
		}
	}
	d.procs = left
	d.whole, d.most = -1, -1
	if d.listed {
		d.whole = d.listFree
	}
}

// tally works out what judging needs, for user uid.
//
// After a quick reading nobody can say how much of its grant an attempt has
// taken by now, nor whose memory has come or gone: all of it counts as promised.
func (d *device) tally(uid int) {
	d.promised, d.ours = 0, 0
	expected := Bytes(0) // of the memory in use with no process to be seen
	for _, h := range d.holds {
		taken, known := d.taken(h.attempt)
		left := max(0, h.memory-taken)
		expected += left
		switch {
		case known && !d.quick:
			d.promised += left
			d.ours += max(taken, h.memory)
		default:
			d.promised += h.memory
			d.ours += 2 * h.memory // what it has taken, at most, and what it might still take
		}
	}
	for _, c := range d.claims {
		left := max(0, c.Memory-max(0, c.Taken))
		expected += left
		if d.quick {
			left = c.Memory
		}
		d.promised += left
	}
	d.who(uid)
	d.hidden = d.unexplained(expected)
}

// who sorts out whose processes are there, besides those of attempts held here.
func (d *device) who(uid int) {
	d.foreign, d.own = nil, nil
	for i := range d.procs {
		pr := &d.procs[i]
		switch {
		case pr.Attempt != "" && d.holder(pr.Attempt):
		case pr.UID == uid || pr.Attempt != "":
			d.own = bigger(d.own, pr)
		default:
			d.foreign = bigger(d.foreign, pr)
		}
	}
}

func (d *device) holder(attempt string) bool {
	for _, h := range d.holds {
		if h.attempt == attempt {
			return true
		}
	}
	return false
}

// taken is what the processes of attempt use, and whether that can be told.
func (d *device) taken(attempt string) (Bytes, bool) {
	sum := Bytes(0)
	for i := range d.procs {
		if d.procs[i].Attempt != attempt {
			continue
		}
		if d.procs[i].Memory < 0 {
			return 0, false
		}
		sum += d.procs[i].Memory
	}
	return sum, true
}

// unexplained is the memory in use that no listed process has and that jobs
// are not expected to have, 0 when that is at most slack or cannot be told.
func (d *device) unexplained(expected Bytes) Bytes {
	rest := d.used
	if d.listed {
		rest = d.listUsed
	}
	rest -= expected // a job in a container has memory, and no process to be seen
	for i := range d.procs {
		if d.procs[i].Memory < 0 {
			return 0
		}
		rest -= d.procs[i].Memory
	}
	if rest <= slack {
		return 0
	}
	return rest
}

// empty says that nobody is on the device.
func (d *device) empty() bool {
	return len(d.procs) == 0 && d.hidden == 0 && (d.listed || d.used >= 0)
}

// returned says that this run has just got the device back.
func (d *device) returned(now time.Duration) bool {
	return d.back && now-d.released <= backFor
}

func bigger(a, b *Process) *Process {
	if a == nil || b.Memory > a.Memory {
		return b
	}
	return a
}
