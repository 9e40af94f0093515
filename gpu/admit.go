package gpu

import (
	"cmp"
	"fmt"
	"slices"
	"time"
)

// A rule is a reason to refuse a device for a request. To add a rule, add a row below.
type rule struct {
	code    Code
	refuses func(q *query, d *device) bool
	words   func(q *query, d *device) string // follows "GPU 2: " in messages
	ours    func(q *query, d *device) bool   // whether only this run's attempts are the reason; nil if they never are
	never   bool                             // waiting cannot help
	host    bool                             // set by the owner of the host
}

// These are the rules, in the order in which their reasons are reported: first reasons that waiting
// cannot change, then the host's hours, then whether the device answers, then who uses it, then
// memory, utilization and limits on the number of devices.
var (
	fixed = []rule{
		{code: NotManaged, never: true, refuses: func(_ *query, d *device) bool { return !d.managed },
			words: text("not managed by this run (gpu_ids)")},
		{code: Reserved, never: true, refuses: func(_ *query, d *device) bool { return d.reserved },
			words: func(q *query, _ *device) string {
				return fmt.Sprintf("reserved for other users (reserve: %d)", q.pool.rules.Reserve)
			}},
		{code: NotAsked, never: true, refuses: func(q *query, d *device) bool { return !q.names(d) },
			words: text("not in the job's gpu_ids")},
		{code: OtherModel, never: true, refuses: func(q *query, d *device) bool { return !d.is(q.req.Models) },
			words: func(q *query, d *device) string {
				return cmp.Or(d.Name, "unknown model") + ", not " + either(q.req.Models.List())
			}},
		{code: MIGInstance, never: true, refuses: func(q *query, d *device) bool { return d.MIG && q.req.Min > 1 },
			words: func(q *query, _ *device) string {
				return fmt.Sprintf("a MIG instance, but the job needs %d GPUs", q.req.Min)
			}},
		{code: TooSmall, never: true, refuses: func(q *query, d *device) bool { return d.Total > 0 && d.Total < q.req.Memory },
			words: func(q *query, d *device) string { return have(d.Total, "total", q.req.Memory) }},
		// This is last, so that it is reported only if the job could otherwise use the device.
		{code: Reserved, host: true, never: true, refuses: func(_ *query, d *device) bool { return d.barred != "" },
			words: func(_ *query, d *device) string { return "not available to gpurun: " + d.barred }},
	}
	opening = []rule{
		{code: Limit, host: true, refuses: func(q *query, d *device) bool { return q.pool.closed(q.now, d) != "" },
			words: func(q *query, d *device) string { return q.pool.closed(q.now, d) }},
	}
	answering = []rule{
		{code: Unread, refuses: func(_ *query, d *device) bool { return d.noReading != "" },
			words: func(_ *query, d *device) string { return "no readings: " + d.noReading }},
		{code: Unread, refuses: func(_ *query, d *device) bool { return !d.read },
			words: text("not read yet")},
		{code: SilentNow, refuses: func(_ *query, d *device) bool { return d.err != "" },
			words: func(_ *query, d *device) string { return "does not answer: " + d.err }},
		{code: Prohibited, refuses: func(_ *query, d *device) bool { return d.mode == ComputeProhibited },
			words: text("compute mode is prohibited, so no process can use the GPU")},
		{code: Quarantined, refuses: func(_ *query, d *device) bool { return d.quarantine != nil },
			words: func(q *query, d *device) string { return d.quarantine.words(q.now) }},
	}
	company = []rule{
		{code: Quarantined, refuses: func(q *query, d *device) bool {
			return q.req.Avoid != "" && slices.Contains(q.req.Avoid.List(), string(d.UUID))
		}, words: text("the job failed on this GPU and tries other GPUs first")},
		{code: Held, refuses: func(q *query, d *device) bool {
			return slices.ContainsFunc(d.holds, func(h hold) bool { return !d.beside(q.req.Share, h.Share) })
		}, words: func(_ *query, d *device) string { return heldByRun(len(d.holds)) }, ours: withoutOurs},
		{code: Claimed, refuses: func(q *query, d *device) bool { return d.barring(q.req.Share) != nil },
			words: func(_ *query, d *device) string { return d.claims[0].words() }},
		{code: Kept, refuses: func(q *query, d *device) bool { return q.gatherer(d) != nil }, words: gathererWords},
		{code: Limit, refuses: func(q *query, d *device) bool { return q.crowded(d, d.holds) }, words: crowdedWords, ours: withoutOurs},
		{code: Exclusive, refuses: func(_ *query, d *device) bool { return d.mode == ComputeExclusive && len(d.procs) > 0 },
			words: func(_ *query, d *device) string { return "compute mode is exclusive, and " + d.biggest().on() }},
		{code: Own, refuses: func(q *query, d *device) bool { return d.own != nil && !q.req.Share },
			words: func(_ *query, d *device) string { return d.own.on() }},
		{code: OthersThere, refuses: func(q *query, d *device) bool { return q.avoids() && d.foreign != nil },
			words: func(q *query, d *device) string { return d.foreign.on() + q.avoiding() }},
		{code: Hidden, refuses: func(q *query, d *device) bool { return q.avoids() && d.unattributed(q.now) > 0 },
			words: func(q *query, d *device) string { return d.hiddenWords() + q.avoiding() }},
	}
	numbers = []rule{
		{code: Releasing, refuses: func(_ *query, d *device) bool { return d.awaited },
			words: text("just freed; reading its free memory"),
			ours:  func(*query, *device) bool { return true }},
		// Without a reading of its free memory, a device admits a request only if it is empty.
		{code: Unread, refuses: func(_ *query, d *device) bool {
			return d.free < 0 && (!d.listed || len(d.procs)+len(d.holds)+len(d.claims) > 0)
		}, words: unreadable, ours: ourMemory},
		{code: MemoryShort, refuses: func(q *query, d *device) bool { return d.free >= 0 && d.free-d.promised < q.memory(d) },
			words: missingMemory, ours: ourMemory},
		{code: Busy, refuses: func(q *query, d *device) bool { return q.util(d) > q.req.MaxUtil }, words: busy,
			ours: func(_ *query, d *device) bool { return len(d.holds) > 0 && !d.hasStrangers() }},
		{code: Limit, host: true, refuses: func(q *query, d *device) bool { return q.left < q.fresh() && !q.pool.userHolds(d) },
			words: func(q *query, _ *device) string { return q.holding() + "; " + q.limitedBy }},
		{code: Limit, refuses: func(q *query, d *device) bool { return q.full && len(d.holds) == 0 },
			words: func(q *query, _ *device) string {
				return fmt.Sprintf("this run holds %s, the most that min_gpus, max_gpus and reserve allow now", count(q.pool.held()))
			}},
		{code: Watching, refuses: func(q *query, d *device) bool { return !q.pool.rules.AtOnce && q.unwatched(d) },
			words: func(_ *query, d *device) string { return "watched for only " + d.watchedFor() }},
	}
	rules = slices.Concat(fixed, opening, answering, company, numbers)
)

func text(s string) func(*query, *device) string { return func(*query, *device) string { return s } }

// A query is a request with the state that the rules need.
type query struct {
	pool    *Pool
	req     *Request
	now     time.Duration
	named   []bool // by position: whether the request's IDs include the device; nil if they include all
	gathers bool   // the devices are to be gathered, not used immediately
	full    bool   // this run holds as many devices as it may

	left      int    // how many more devices this user may hold
	limitedBy string // the host rule behind left
}

func (p *Pool) query(now time.Duration, req *Request) query {
	q := query{pool: p, req: req, now: now, full: p.held() >= p.limit()}
	if ids := req.IDs.List(); len(ids) > 0 {
		q.named = matches(p.all(), ids)
	}
	q.left, q.limitedBy = p.quota(now)
	return q
}

// names reports whether the request's IDs include a device.
func (q *query) names(d *device) bool { return q.named == nil || q.named[d.position] }

// refusal returns the first rule in some that refuses d, or nil.
func (q *query) refusal(some []rule, d *device) *rule {
	for i := range some {
		if some[i].refuses(q, d) {
			return &some[i]
		}
	}
	return nil
}

func (q *query) avoids() bool {
	return q.pool.rules.Others == OthersAvoid || q.pool.rules.Host.Others == OthersAvoid
}

// avoiding names the rule that makes the request avoid other users: the run's or the host's.
func (q *query) avoiding() string {
	if q.pool.rules.Others == OthersAvoid {
		return " (others: avoid)"
	}
	return "; " + q.pool.rules.Host.WithSource("others: avoid")
}

// fresh returns the minimum number of additional devices that this user must hold for the request.
func (q *query) fresh() int {
	need := q.req.Min
	if q.req.Share {
		need -= q.pool.Held()
	}
	return max(1, need)
}

// holding explains why the quota is too small for the request: "you hold 3 GPUs".
func (q *query) holding() string {
	held := "you hold " + count(q.pool.Held())
	if q.left > 0 {
		held += fmt.Sprintf(", and this job needs %d", q.fresh())
	}
	return held
}

// memory returns the memory that the request needs on a device. A request for a part of a device
// accepts up to slack less, because the free memory of an empty device varies between readings.
func (q *query) memory(d *device) Bytes {
	if !q.req.Part {
		return q.req.Memory
	}
	part := d.part(q.req.Slots)
	if left := d.free - d.promised; left < part && left >= part-slack {
		return max(0, left)
	}
	return part
}

// crowded reports whether holds and the claims of other runs use all slots of a device.
func (q *query) crowded(d *device, holds []hold) bool {
	most, _ := d.slots(q.req.Slots, holds)
	return most > 0 && len(holds)+len(d.claims) >= most
}

func crowdedWords(q *query, d *device) string {
	most, whose := d.slots(q.req.Slots, d.holds)
	n, s := len(d.holds)+len(d.claims), "1 job runs on it"
	if n > 1 {
		s = fmt.Sprintf("%d jobs run on it", n)
	}
	if whose != "" {
		return fmt.Sprintf("%s (slots: %d, set by %s)", s, most, whose)
	}
	return fmt.Sprintf("%s (slots: %d)", s, most)
}

// beside reports whether two jobs may both be on the device, given whether each of them shares.
func (d *device) beside(a, b bool) bool { return a && b && d.mode != ComputeExclusive }

// barring returns a claim that excludes a job with this value of share, or nil.
func (d *device) barring(share bool) *Claim {
	if i := slices.IndexFunc(d.claims, func(c Claim) bool { return !d.beside(share, c.Share) }); i >= 0 {
		return &d.claims[i]
	}
	return nil
}

// withoutOurs reports whether d, which attempts of this run hold, would admit the request without
// these attempts, as far as currently known.
func withoutOurs(q *query, d *device) bool {
	if slices.ContainsFunc(d.claims, func(c Claim) bool { return !q.req.Share || !c.Share }) {
		return false
	}
	if d.own != nil && !q.req.Share || d.foreign != nil && (d.mode == ComputeExclusive || q.avoids()) {
		return false
	}
	return !q.crowded(d, nil) && !(q.avoids() && d.unattributed(q.now) > 0) && (d.free < 0 || d.potential() >= q.memory(d))
}

// ourMemory reports whether the request lacks only memory that attempts of this run hold, or have
// just released.
func ourMemory(q *query, d *device) bool {
	return (len(d.holds) > 0 || d.returned(q.now)) && (d.free < 0 || d.potential() >= q.memory(d))
}

// util returns the utilization that applies to the request, in percent: the highest in the last 3 s,
// or in the last minute if strangers are on the device. It is -1 if unknown or irrelevant.
func (q *query) util(d *device) int {
	if q.req.MaxUtil >= 100 || d.empty() || d.returned(q.now) || q.req.Share && !q.req.UtilOnOwn && !d.hasStrangers() {
		return -1
	}
	return d.peaks[d.window()]
}

// unwatched reports whether d has been watched for less than the period over which its utilization
// is judged.
func (q *query) unwatched(d *device) bool { return q.util(d) >= 0 && d.watched < windows[d.window()] }

func unreadable(_ *query, d *device) string {
	if !d.listed {
		return "cannot read its free memory or its processes"
	}
	if b := d.biggest(); b != nil {
		return "cannot read its free memory, and " + b.on()
	}
	return "cannot read its free memory, and a job holds the GPU"
}

// missingMemory describes how much memory is free and needed, and what uses the rest.
func missingMemory(q *query, d *device) string {
	s := have(max(0, d.free-d.promised), "free", q.memory(d))
	if d.promised > 0 {
		s += fmt.Sprintf("; another %s is promised to running jobs", d.promised.Round())
	}
	if b := d.biggest(); b != nil && b.Memory > d.hidden {
		s += "; " + b.on()
	} else if d.hidden > 0 {
		s += "; " + d.hiddenWords()
	}
	return s
}

func busy(q *query, d *device) string {
	window := d.window()
	if now := d.samples[len(d.samples)-1].Percent; now <= q.req.MaxUtil {
		return fmt.Sprintf("%d%% busy in the last %d s, limit %d%%", d.peaks[window], windows[window]/time.Second, q.req.MaxUtil)
	}
	return fmt.Sprintf("%d%% busy, limit %d%%", d.peaks[window], q.req.MaxUtil)
}
