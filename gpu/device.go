package gpu

import (
	"slices"
	"time"
)

const (
	// slack is how much memory may be in use on a device that counts as empty:
	// displays and the driver's own idle contexts take some.
	slack = 512 * MiB

	// backFor is how long a device counts as just returned.
	backFor = 30 * time.Second

	briefly = 3 * time.Second  // utilization is judged over this,
	atLeast = 60 * time.Second // or over this if another user's process is there
)

// A device is what the pool knows about one Device. The last group of fields is
// computed by tally, so judging a request costs next to nothing.
type device struct {
	Device
	managed  bool
	reserved bool // for others, by its index

	read      bool          // at least once
	at        time.Duration // of the latest reading
	noReading string        // why no device has been read since
	err       string        // why it does not answer
	mode      ComputeMode
	free      Bytes // as judged; -1 unknown
	used      Bytes // -1 unknown
	procs     []Process
	listed    bool  // procs have been read at least once
	quick     bool  // the latest reading had memory but no procs
	listFree  Bytes // free when procs were read, plus what was released since; -1 if unknown
	listUsed  Bytes // used when procs were read, minus what was released since
	samples   []Sample
	since     time.Duration // start of the unbroken run of samples

	holds     []hold
	claims    []Claim
	released  time.Duration // time of the last release
	awaited   bool          // released and not read since
	back      bool          // just returned to this run
	whole     Bytes         // expected free once the released memory is back, by the list before; -1 if unknown
	most      Bytes         // most ever free since the last release; -1 if not read
	unyielded bool          // released by its only holder but still claimed: no other claim counts

	promised Bytes // to holds and claims, not yet allocated
	ours     Bytes // how much more would be free without this run's attempts
	foreign  *Process
	own      *Process // of this user, but of no attempt held here
	hidden   Bytes    // in use by no visible process, if more than slack; else 0
	peaks    [2]int   // highest sample of the last 3 s and 60 s; -1 if unknown
	watched  time.Duration
}

// A hold is one attempt's share of a device.
type hold struct {
	attempt string
	memory  Bytes
	share   bool
}

// observe records a reading taken at at.
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
		d.listFree, d.listUsed = d.free, d.used // freed since the list, which was empty
	}
}

// vacant reports whether a fresh list of a just-returned device shows nobody
// there. Memory in use may still be the ended job's: some drivers free it long
// after its last process is gone.
func (d *device) vacant(at time.Duration) bool {
	return at-d.released <= backFor && len(d.procs)+len(d.claims) == 0
}

// filled reports whether memory that was free since the release is in use again.
// An ended job allocates nothing, so somebody else has come, visible or not.
func (d *device) filled() bool {
	before := d.most
	d.most = max(before, d.free)
	return d.free >= 0 && before-d.free > slack
}

// lingering returns how much of the memory in use, as of the last list, may
// still belong to the job that left the device.
func (d *device) lingering() Bytes {
	if d.whole < 0 || d.listFree < 0 {
		return 0
	}
	return max(0, d.whole-d.listFree)
}

// strange returns the memory in use that belongs to no visible process and cannot
// belong to the job that just ended here either.
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
		return // too old to say anything about now
	}
	d.watched = d.at - d.since
	for i, window := range []time.Duration{briefly, atLeast} {
		d.peaks[i] = peak(d.samples, d.at-window)
	}
}

// last returns the time of the newest sample.
func (d *device) last() (time.Duration, bool) {
	if len(d.samples) == 0 {
		return 0, false
	}
	return d.samples[len(d.samples)-1].At, true
}

// peak returns the highest sample since from, always counting the newest; -1 if there is none.
func peak(samples []Sample, from time.Duration) int {
	highest := -1
	for i, s := range samples {
		if s.At >= from || i == len(samples)-1 {
			highest = max(highest, s.Percent)
		}
	}
	return highest
}

// drop removes attempt's hold.
func (d *device) drop(attempt string) {
	kept := d.holds[:0]
	for _, h := range d.holds {
		if h.attempt != attempt {
			kept = append(kept, h)
		}
	}
	d.holds = kept
}

// release ends attempt's hold.
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

// tally computes what judging needs, for user uid.
//
// A quick reading does not show how much of its grant an attempt has allocated,
// nor whose memory came or went. The whole grant then counts as promised.
func (d *device) tally(uid int) {
	d.promised, d.ours = 0, 0
	expected := Bytes(0) // memory that invisible processes of jobs may be using
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
			d.ours += 2 * h.memory // at most what it has allocated plus what it may still allocate
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

// who finds the biggest foreign process and the biggest own one that no attempt held here owns.
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

// taken returns what attempt's processes use, and whether that is known.
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

// unexplained returns the memory in use that neither a listed process nor an
// expected job accounts for; 0 if that is at most slack or unknown.
func (d *device) unexplained(expected Bytes) Bytes {
	rest := d.used
	if d.listed {
		rest = d.listUsed
	}
	rest -= expected // a job in a container uses memory but shows no process
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

// empty reports whether nobody is on the device.
func (d *device) empty() bool {
	return len(d.procs) == 0 && d.hidden == 0 && (d.listed || d.used >= 0)
}

// returned reports whether this run just got the device back.
func (d *device) returned(now time.Duration) bool {
	return d.back && now-d.released <= backFor
}

func bigger(a, b *Process) *Process {
	if a == nil || b.Memory > a.Memory {
		return b
	}
	return a
}
