// Package hostsim simulates a host in virtual time. Its runs have the real core and pool, so no
// rule of the scheduler is implemented twice. They see only what other runs publish, with realistic
// delays. Other users start programs by hand, or cheat. The results are in
// docs/internals/scheduling.md. The package consists only of tests.
package hostsim

import (
	"container/heap"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"slices"
	"time"

	"gpurun/gpu"
	"gpurun/jobspec"
)

const (
	total = 24 * gpu.GiB // of each GPU
	asked = 16 * gpu.GiB // per GPU of each job
)

// epoch is the wall clock's time when CLOCK_BOOTTIME is 0.
var epoch = time.Date(2026, 3, 2, 0, 0, 0, 0, time.UTC)

// A host is the state that all runs share: GPUs, processes, and the claims folders.
type host struct {
	rng    *rand.Rand
	now    time.Duration
	events events
	seq    int
	gpus   []gpu.Device
	rules  gpu.HostRules
	procs  []*process
	claims []*claim // in the order of creation
	wishes []*wish
	runs   []*run
	queues []waiter           // all queues of jobs that wait for GPUs
	locked time.Duration      // until when a run holds the lock of the claims
	doubt  func() bool        // whether claims currently cannot be read completely
	looks  [2]time.Duration   // bounds of the time for reading claims
	blind  func(uid int) bool // users whose runs cannot watch the folders
	meter  meter
	ended  func() // called after a process has ended; may be nil

	machine gpu.HostResources                  // cores and memory; 0 for no limit
	spec    func(uid int, spec *jobspec.Spec)  // changes the spec of a user's jobs; may be nil
	set     func(uid int, s *jobspec.Settings) // changes their settings; may be nil
	takes   func(uid int) gpu.Bytes            // memory used by a user's processes on each GPU
}

// A process computes on GPUs.
type process struct {
	uid     int
	attempt string // "" for a process started by hand
	on      []int
	since   time.Duration
	seen    time.Duration // when it appears in the driver's list
	gone    time.Duration // 0 while it runs
	freed   time.Duration // when its memory is freed
	beside  bool          // it was started on a GPU with a stranger's visible process
}

// A waiter has waiting jobs that each need some idle GPUs.
type waiter interface{ waits() (jobs, each int) }

// A claim is a claim file.
type claim struct {
	run    *run // nil if no run created it
	uid    int
	owner  string // ID of the run
	since  time.Time
	id     string
	share  bool
	slots  int
	memory gpu.Bytes
	behind bool // its run is in the background
	keeps  bool // it reserves a GPU for a job that needs more
	on     []stake
	beyond gpu.HostResources
	over   bool // its attempt has ended
	began  time.Duration
}

type stake struct {
	gpu int
	to  string
}

// A wish is a wish file.
type wish struct {
	owner string
	gpu.Wish
}

func newHost(seed uint64, n int) *host {
	h := &host{rng: rand.New(rand.NewPCG(seed, 1)), now: time.Hour, rules: *gpu.NoHostRules(), looks: [2]time.Duration{ms(1), ms(5)}}
	h.doubt, h.blind, h.takes = func() bool { return false }, func(int) bool { return false }, func(int) gpu.Bytes { return asked }
	for i := range n {
		h.gpus = append(h.gpus, gpu.Device{Index: i, UUID: gpu.UUID(fmt.Sprintf("GPU-%02d", i)), Name: "NVIDIA Test", PCI: fmt.Sprintf("00000000:%02X:00.0", i), Total: total})
	}
	h.rules.Patience, h.rules.Gather = hours(1.0/6), hours(0.5)
	h.meter.init(h)
	return h
}

func (h *host) wall() time.Time { return epoch.Add(h.now) }

// between returns a random delay.
func (h *host) between(a, b time.Duration) time.Duration {
	return a + time.Duration(h.rng.Int64N(int64(b-a)+1))
}

func ms(n int) time.Duration { return time.Duration(n) * time.Millisecond }

// after calls f after d.
func (h *host) after(d time.Duration, f func()) { h.at(h.now+d, f) }

func (h *host) at(t time.Duration, f func()) {
	h.seq++
	heap.Push(&h.events, event{t, h.seq, f})
}

// play processes events until a time.
func (h *host) play(until time.Duration) {
	for len(h.events) > 0 && h.events[0].at <= until {
		ev := heap.Pop(&h.events).(event)
		h.now = max(h.now, ev.at)
		ev.do()
	}
	h.now = max(h.now, until)
	h.meter.pass()
}

type event struct {
	at  time.Duration
	seq int
	do  func()
}

type events []event

func (e events) Len() int { return len(e) }
func (e events) Less(i, j int) bool {
	return e[i].at < e[j].at || e[i].at == e[j].at && e[i].seq < e[j].seq
}
func (e events) Swap(i, j int) { e[i], e[j] = e[j], e[i] }
func (e *events) Push(x any)   { *e = append(*e, x.(event)) }
func (e *events) Pop() any {
	last := (*e)[len(*e)-1]
	*e = (*e)[:len(*e)-1]
	return last
}

func (h *host) start(uid int, attempt string, on []int, sees time.Duration) *process {
	h.meter.pass()
	p := &process{uid: uid, attempt: attempt, on: on, since: h.now, seen: h.now + sees}
	h.procs = append(h.procs, p)
	h.meter.began(p)
	return p
}

// end ends a process. The driver may free the memory later.
func (h *host) end(p *process) {
	h.meter.pass()
	p.gone = h.now
	p.freed = h.now + h.between(0, ms(60))
	h.procs = slices.DeleteFunc(h.procs, func(q *process) bool { return q.gone > 0 && q.freed < h.now })
	h.meter.changed()
	if h.ended != nil {
		h.ended()
	}
}

// running yields the processes on a GPU.
func (h *host) running(i int) func(yield func(*process) bool) {
	return func(yield func(*process) bool) {
		for _, p := range h.procs {
			if p.gone == 0 && slices.Contains(p.on, i) && !yield(p) {
				return
			}
		}
	}
}

// idle reports whether no process computes on a GPU.
func (h *host) idle(i int) bool {
	for range h.running(i) {
		return false
	}
	return true
}

// read returns the driver's current readings of these GPUs, with processes attributed as the run
// would.
func (h *host) read(r *run, ids []gpu.UUID, lists bool) []gpu.Reading {
	var list []gpu.Reading
	for i := range h.gpus {
		d := &h.gpus[i]
		if len(ids) > 0 && !slices.Contains(ids, d.UUID) {
			continue
		}
		x := gpu.Reading{UUID: d.UUID, Total: total, Free: total, Used: 0, Listed: lists}
		for k, p := range h.procs {
			if p.seen > h.now || p.gone > 0 && p.freed <= h.now || !slices.Contains(p.on, i) {
				continue
			}
			x.Free, x.Used = x.Free-h.takes(p.uid), x.Used+h.takes(p.uid)
			if x.Free < 0 {
				x.Free, x.Used = 0, total
			}
			if p.gone > 0 || !lists {
				continue
			}
			own := ""
			if r.has(p.attempt) {
				own = p.attempt
			}
			x.Processes = append(x.Processes, gpu.Process{PID: 100 + k, UID: p.uid, User: fmt.Sprint("user", p.uid), Command: "python", Memory: h.takes(p.uid), Attempt: own})
		}
		if lists {
			busy := 0
			if len(x.Processes) > 0 {
				busy = 97
			}
			x.Samples = []gpu.Sample{{At: h.now, Percent: busy}}
		}
		list = append(list, x)
	}
	return list
}

// others returns the claims that a run finds in the folders.
func (h *host) others(r *run, readings []gpu.Reading) []gpu.Claim {
	list := []gpu.Claim{}
	for _, c := range h.claims {
		if c.run == r {
			continue
		}
		for _, s := range c.on {
			list = append(list, gpu.Claim{
				UUID: h.gpus[s.gpu].UUID, UID: c.uid, User: fmt.Sprint("user", c.uid), Job: "job", PID: 1, Since: c.since,
				Memory: c.memory, Taken: h.taken(c, s.gpu, readings), Share: c.share, Slots: c.slots, Attempt: c.id, Run: c.owner, To: s.to, Background: c.behind, Gathering: c.keeps, HostResources: c.beyond,
			})
		}
	}
	slices.SortStableFunc(list, func(a, b gpu.Claim) int {
		if a.UUID != b.UUID {
			return int(a.UUID[4]-b.UUID[4])*10 + int(a.UUID[5]) - int(b.UUID[5])
		}
		return a.Since.Compare(b.Since)
	})
	return list
}

// taken returns how much of a claim is in use, according to a list of processes.
func (h *host) taken(c *claim, on int, readings []gpu.Reading) gpu.Bytes {
	for i := range readings {
		if r := &readings[i]; r.UUID == h.gpus[on].UUID && r.Listed {
			for p := range h.running(on) {
				if p.attempt == c.id && p.seen <= h.now {
					return h.takes(c.uid)
				}
			}
		}
	}
	return 0
}

// wished returns the wishes of other runs: the eight oldest of each user.
func (h *host) wished(r *run) (list []gpu.Wish) {
	sorted := slices.Clone(h.wishes)
	slices.SortStableFunc(sorted, func(a, b *wish) int { return a.Since.Compare(b.Since) })
	counts := map[int]int{}
	for _, w := range sorted {
		if w.owner != r.id && counts[w.UID] < 8 && !r.deaf {
			counts[w.UID]++
			list = append(list, w.Wish)
		}
	}
	return list
}

// publish makes a claim visible to all runs.
func (h *host) publish(c *claim) {
	h.claims = append(h.claims, c)
	h.changed(c, false)
}

// remove ends a claim, or its hold on some GPUs.
func (h *host) remove(c *claim, ids ...int) {
	if !slices.Contains(h.claims, c) {
		return
	}
	if len(ids) > 0 {
		c.on = slices.DeleteFunc(c.on, func(s stake) bool { return slices.Contains(ids, s.gpu) })
	} else {
		c.on = nil
	}
	if len(c.on) == 0 {
		h.claims = slices.DeleteFunc(h.claims, func(o *claim) bool { return o == c })
	}
	h.changed(c, len(c.on) == 0)
}

// changed notifies every run of a changed claim; gone means that it was removed.
func (h *host) changed(c *claim, gone bool) {
	for _, r := range h.runs {
		if r != c.run && !r.done {
			r.watch.claim(c, gone)
		}
	}
}

// written returns a wish as other runs read it: the content of its file, and the file's owner.
func written(w gpu.Wish) (read gpu.Wish) {
	b, err := json.Marshal(w)
	if err == nil {
		err = json.Unmarshal(b, &read)
	}
	if err != nil {
		panic(err)
	}
	read.UID, read.User = w.UID, fmt.Sprint("user", w.UID)
	return read
}

// wish publishes a run's wish, or removes it if it has no requests.
func (h *host) wish(owner string, w gpu.Wish) {
	h.wishes = slices.DeleteFunc(h.wishes, func(o *wish) bool { return o.owner == owner })
	if len(w.Requests) > 0 || w.CPUs > 0 || w.RAM > 0 {
		h.wishes = append(h.wishes, &wish{owner, written(w)})
	}
	for _, r := range h.runs {
		if r.id != owner && !r.done {
			r.watch.due(wishEvery)
		}
	}
}
