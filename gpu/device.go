package gpu

import (
	"slices"
	"time"
)

const (
	// slack is how much memory may be in use on a device that counts as empty, because displays and
	// the driver's idle contexts use some.
	slack = 512 * MiB

	// backFor is how long a device counts as just returned.
	backFor = 30 * time.Second
)

// A device is the pool's state for one Device.
type device struct {
	Device
	position int    // in PCI order
	managed  bool   // allowed by the run's gpu_ids
	reserved bool   // reserved for others because of its index
	barred   string // the host rule that keeps it from gpurun, or ""

	latest
	activity
	holds  []hold
	claims []Claim
	gatherState
	quarantineState
	releaseState
	offered bool   // offered to this run by another
	to      string // the run to which this one offers it, or ""
	memoryTally
}

// latest is the state of a device in its latest readings.
type latest struct {
	read      bool          // at least once
	at        time.Duration // time of the latest reading
	told      time.Duration // when that reading arrived
	noReading string        // why no device has been read since
	err       string        // why it does not answer
	mode      ComputeMode
	free      Bytes // -1 if unknown
	used      Bytes // -1 if unknown
	procs     []Process
	listed    bool  // procs have been read at least once
	quick     bool  // the latest reading had memory but no procs
	listFree  Bytes // free when procs were read, plus what was released since; -1 if unknown
	listUsed  Bytes // used when procs were read, minus what was released since
	bare      Bytes // free memory of the device when empty, from the last conclusive list; 0 if there is none
}

// A hold is one attempt's share of a device.
type hold struct {
	attempt string
	Grant
	beside []int // PIDs of strangers there when it began
}

// gatherState tracks gathering claims on a device.
type gatherState struct {
	gathers []Claim // gathering claims of other runs that count
	mine    bool    // this run has one
}

// quarantineState tracks users' quarantines of a device.
type quarantineState struct {
	quarantine *Quarantine // this user's quarantine, if in force, or nil
	suspect    bool        // another user has quarantined it
}

// releaseState tracks a device after an attempt of this run released it.
type releaseState struct {
	released  time.Duration // time of the last release
	awaited   bool          // released and not read since
	back      bool          // just returned to this run
	whole     Bytes         // free memory expected once the released memory is free, from the previous list; -1 if unknown
	most      Bytes         // maximum free memory since the last release; -1 if not read
	unyielded bool          // released by its only holder but still claimed, so no other claim counts
}

// memoryTally is computed by count, so that judging a request is cheap.
type memoryTally struct {
	promised Bytes // granted to holds and claims but not allocated yet
	ours     Bytes // memory that would become available without this run's attempts
	foreign  *Process
	own      *Process // a process of this user that belongs to no attempt held here
	hidden   Bytes    // used by no visible process, if more than slack; else 0
}

// observe records a reading taken at the given time.
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
	d.watch(d.UUID, d.at, r.Samples, gap)
	d.quick = !r.Listed
	if r.Listed {
		d.mode = r.ComputeMode
		d.procs = append(d.procs[:0], r.Processes...)
		d.listed, d.listFree, d.listUsed = true, d.free, d.used
		d.measureFree()
		// A device no longer counts as just returned if a fresh list shows a process there, or if another
		// run claims it. Memory in use may still be the ended job's, because some drivers free it long
		// after the job's last process is gone.
		d.back = d.returned(at) && len(d.procs)+len(d.claims) == 0
	} else if d.back && len(d.procs) == 0 && d.free > d.listFree {
		d.listFree, d.listUsed = d.free, d.used // the list was empty, so this memory has been freed since
	}
}

// measureFree computes, from a full reading, how much memory would be free if the device were
// empty: the free memory plus the memory used by all processes, visible or not.
func (d *device) measureFree() {
	if taken, known := memoryOf(d.procs); known && d.free >= 0 {
		d.bare = d.free + taken + d.unexplained(0)
	}
}

// part returns 1/n of the memory that is free when the device is empty: measured or, if it has
// never been measured, estimated.
func (d *device) part(n int) Bytes {
	if d.bare > 0 {
		return d.bare / Bytes(n)
	}
	return MostOf(d.Total) / Bytes(n)
}

// MostOf estimates how much of a device's memory the driver leaves for jobs.
func MostOf(total Bytes) Bytes { return total - total/32 }

// slots returns the lowest of the limits on the number of jobs on the device: own, and those in
// holds and in other runs' claims. If a claim set that limit, whose is the claim's user. 0 means no
// limit.
func (d *device) slots(own int, holds []hold) (most int, whose string) {
	least := func(n int, user string) {
		if n > 0 && (most == 0 || n < most) {
			most, whose = n, user
		}
	}
	least(own, "")
	for _, h := range holds {
		least(h.Slots, "")
	}
	for _, c := range d.claims {
		least(c.Slots, c.User)
	}
	return most, whose
}

// filled reports whether memory that was free at some time since the release is in use again. A job
// that has ended allocates nothing, so this means that another process has started, visible or not.
func (d *device) filled() bool {
	before := d.most
	d.most = max(before, d.free)
	return d.free >= 0 && before-d.free > slack
}

// unattributed returns the memory in use that belongs to no visible process and cannot belong to
// the job that just ended here.
func (d *device) unattributed(now time.Duration) Bytes {
	lingering := Bytes(0) // memory that may still be the ended job's, according to the last list
	if d.whole >= 0 && d.listFree >= 0 {
		lingering = max(0, d.whole-d.listFree)
	}
	if d.returned(now) && d.hidden-lingering <= slack {
		return 0
	}
	return d.hidden
}

// hold returns an attempt's hold on the device, or nil.
func (d *device) hold(attempt string) *hold {
	if i := slices.IndexFunc(d.holds, func(h hold) bool { return attempt != "" && h.attempt == attempt }); i >= 0 {
		return &d.holds[i]
	}
	return nil
}

func (d *device) drop(attempt string) {
	d.holds = slices.DeleteFunc(d.holds, func(h hold) bool { return h.attempt == attempt })
}

// strange reports whether a process belongs to another user, and no attempt is known to have started it.
func (pr *Process) strange(uid int) bool { return pr.UID != uid && pr.Attempt == "" }

// strangers returns the PIDs of strange processes.
func (d *device) strangers(uid int) (pids []int) {
	for i := range d.procs {
		if pr := &d.procs[i]; pr.strange(uid) {
			pids = append(pids, pr.PID)
		}
	}
	return pids
}

// joined reports whether a stranger has come to the device during an attempt. If no process of the
// attempt is visible, as in a container of another user, the stranger may be its own.
func (d *device) joined(attempt string, uid int) bool {
	h := d.hold(attempt)
	return h != nil && slices.ContainsFunc(d.procs, func(pr Process) bool { return pr.Attempt == attempt }) &&
		slices.ContainsFunc(d.strangers(uid), func(pid int) bool { return !slices.Contains(h.beside, pid) })
}

func (d *device) release(now time.Duration, attempt string, uid int) {
	joined := d.joined(attempt, uid)
	shared := slices.ContainsFunc(d.holds, func(h hold) bool { return h.Share })
	d.drop(attempt)
	d.released, d.awaited = now, true
	last := len(d.holds) == 0
	d.back = last && !joined // a newcomer must be watched
	if d.unyielded = last && !shared; d.unyielded {
		d.claims = nil
	}
	for _, pr := range d.procs {
		if pr.Attempt == attempt && pr.Memory > 0 && d.listFree >= 0 {
			d.listFree += pr.Memory
			d.listUsed -= pr.Memory
		}
	}
	d.procs = slices.DeleteFunc(d.procs, func(pr Process) bool { return pr.Attempt == attempt })
	d.whole, d.most = -1, -1
	if d.listed {
		d.whole = d.listFree
	}
}

// offer records that another run offers the device, which then counts as just returned to this run.
func (d *device) offer(now time.Duration, before bool) {
	if d.offered = len(d.holds) == 0; d.offered && !before {
		d.released, d.awaited, d.back = now, true, true
		d.whole, d.most = -1, -1
	}
}

// inContainer stands for the unknown command of a process in this container.
const inContainer = "in this container"

// contain attributes processes with PIDs of another PID namespace to user uid if only that user claims
// the device, since these processes must then be in this container.
func (d *device) contain(uid int) {
	if len(d.holds)+len(d.claims) == 0 || slices.ContainsFunc(d.claims, func(c Claim) bool { return c.UID != uid }) {
		return
	}
	for i := range d.procs {
		if pr := &d.procs[i]; pr.Doubtful && pr.UID < 0 && pr.Attempt == "" {
			pr.UID, pr.Command = uid, inContainer
			if len(d.claims) > 0 {
				pr.User = d.claims[0].User
			} else if len(d.holds) == 1 {
				pr.Attempt = d.holds[0].attempt
			}
		}
	}
}

// count computes the tally for user uid.
//
// A quick reading does not show how much of its grant an attempt has allocated, or whose memory was
// allocated or freed, so the whole grant counts as promised.
func (d *device) count(uid int) {
	d.memoryTally = memoryTally{}
	expected := Bytes(0) // memory that invisible processes of jobs may use
	for _, h := range d.holds {
		taken, known := d.taken(h.attempt)
		left := max(0, h.Memory-taken)
		expected += left
		if known && !d.quick {
			d.promised += left
			d.ours += max(taken, h.Memory)
		} else {
			d.promised += h.Memory
			d.ours += 2 * h.Memory // at most its allocated memory plus the rest of its grant
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
	for i := range d.procs {
		pr := &d.procs[i]
		switch {
		case d.hold(pr.Attempt) != nil:
		case pr.strange(uid):
			d.foreign = bigger(d.foreign, pr)
		default:
			d.own = bigger(d.own, pr)
		}
	}
	d.hidden = d.unexplained(expected)
}

// taken returns the memory used by an attempt's processes, and whether it is known.
func (d *device) taken(attempt string) (sum Bytes, known bool) {
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

// unexplained returns the memory in use beyond what the listed processes use and what is expected
// of invisible ones; 0 if that is at most slack or unknown.
func (d *device) unexplained(expected Bytes) Bytes {
	rest := d.used
	if d.listed {
		rest = d.listUsed
	}
	rest -= expected // a job in a container uses memory but shows no process
	taken, known := memoryOf(d.procs)
	if rest -= taken; !known || rest <= slack {
		return 0
	}
	return rest
}

// available returns the free memory that is not promised; -1 if unknown.
func (d *device) available() Bytes {
	if d.free < 0 {
		return -1
	}
	return max(0, d.free-d.promised)
}

// potential returns the memory that would be free without this run's attempts.
func (d *device) potential() Bytes {
	free := d.free
	if d.back {
		free = max(free, d.whole)
	}
	free += d.ours - d.promised
	if d.Total > 0 {
		free = min(free, d.Total)
	}
	return free
}

// empty reports whether no process or job is on the device.
func (d *device) empty() bool {
	return len(d.procs) == 0 && d.hidden == 0 && (d.listed || d.used >= 0)
}

// hasStrangers reports whether a process of another user, or an invisible one, is on the device.
func (d *device) hasStrangers() bool { return d.foreign != nil || d.hidden > 0 }

// returned reports whether the device was returned to this run within the last backFor.
func (d *device) returned(now time.Duration) bool {
	return d.back && now-d.released <= backFor
}

// biggest returns the process that uses the most memory, or nil.
func (d *device) biggest() (b *Process) {
	for i := range d.procs {
		b = bigger(b, &d.procs[i])
	}
	return b
}

func bigger(a, b *Process) *Process {
	if a == nil || b.Memory > a.Memory {
		return b
	}
	return a
}
