package hostsim

import (
	"fmt"
	"slices"
	"time"

	"gpurun/gpu"
	"gpurun/jobspec"
	"gpurun/runner/sched"
	"gpurun/state"
)

// A job is one job of a batch.
type job struct {
	gpus int
	runs time.Duration
}

// A run simulates one gpurun: the core, driven as in the runner, and its keeper.
type run struct {
	*host
	id    string
	uid   int
	jobs  []job
	back  bool // background: true
	core  *sched.Core
	queue []sched.Event
	timer int // the current timer
	count int // number of attempts so far

	live    map[string]*attempt
	kept    map[string]*claim // gathering claims
	left    []int             // jobs that have not started
	done    bool
	stopped bool // by SIGSTOP
	deaf    bool // it ignores other runs' wishes
	held    []func()

	reading  bool // a reading is in progress
	some     bool
	all      bool
	lists    bool
	next     []gpu.UUID
	noticing bool
	again    bool
	latest   time.Duration // when the core's reading of the claims began
	work     work
	watch    watch
}

// work counts what a run has done.
type work struct{ steps, lists, quick, looks, wishes int }

// An attempt is one attempt of a job.
type attempt struct {
	job   int
	claim *claim
	proc  *process
	began time.Duration // when its GPUs were granted
}

// gpurun starts a run of some jobs.
func (h *host) gpurun(uid int, jobs []job) *run { return h.begun(uid, jobs, false) }

// behind starts a background run.
func (h *host) behind(uid int, jobs []job) *run { return h.begun(uid, jobs, true) }

func (h *host) begun(uid int, jobs []job, background bool) *run {
	r := &run{host: h, uid: uid, jobs: jobs, back: background, id: fmt.Sprintf("run-%d-%03d", uid, len(h.runs)), live: map[string]*attempt{}}
	r.watch = watch{run: r, guests: map[string]bool{}}
	b := &jobspec.Batch{
		Files: []jobspec.File{{Path: "jobs.yaml"}},
		Settings: jobspec.Settings{
			Poll: 5 * time.Second, Patience: 10 * time.Minute, Order: "file", Grace: 10 * time.Second, MinGPUs: -1, MaxGPUs: -1, Others: gpu.OthersAllow, Pick: gpu.MostFree,
			Background: background,
		},
	}
	if h.set != nil {
		h.set(uid, &b.Settings)
	}
	specs := map[int]*jobspec.Spec{}
	for i, j := range jobs {
		s := specs[j.gpus]
		if s == nil {
			s = &jobspec.Spec{Request: gpu.Request{Min: j.gpus, Max: j.gpus, Memory: asked, MaxUtil: 30}, When: jobspec.OnSuccess, Grace: 10 * time.Second}
			if j.gpus == 0 {
				s.Request = gpu.Request{}
			}
			if h.spec != nil {
				h.spec(uid, s)
			}
			specs[j.gpus] = s
		}
		name := fmt.Sprintf("job-%04d", i)
		key := jobspec.Key{byte(i), byte(i >> 8), byte(len(h.runs)), byte(len(h.runs) >> 8)}
		b.Jobs = append(b.Jobs, jobspec.Job{ID: i, Name: name, Spec: s, Queue: -1, Key: key})
		r.left = append(r.left, i)
	}
	r.core = sched.New(b, state.NewHistory(), sched.Options{Run: r.id, UID: uid, CPUs: h.machine.CPUs, Memory: h.machine.RAM})
	rules := h.rules
	rules.At = h.wall()
	r.core.Use(gpu.NewPool(h.gpus, gpu.Rules{Host: &rules, MinGPUs: -1, MaxGPUs: -1, Others: gpu.OthersAllow, Pick: gpu.MostFree, UID: uid, Poll: 5 * time.Second, Run: r.id, Machine: h.machine}))
	h.runs = append(h.runs, r)
	h.queues = append(h.queues, r)
	h.meter.pass()
	r.step(sched.Looked{})
	r.step(sched.Began{})
	r.watch.begin()
	return r
}

// waits returns how many jobs could start, and how many GPUs the smallest of them needs.
func (r *run) waits() (jobs, each int) {
	if r.done || r.stopped || len(r.left) == 0 {
		return 0, 0
	}
	return len(r.left), r.jobs[r.left[0]].gpus
}

func (r *run) has(attempt string) bool { return attempt != "" && r.live[attempt] != nil }

// step passes an event to the core and carries out its actions, as the runner's loop does.
func (r *run) step(ev sched.Event) {
	if r.queue = append(r.queue, ev); len(r.queue) > 1 {
		return
	}
	for len(r.queue) > 0 {
		r.work.steps++
		for _, a := range r.core.Step(sched.Now{Boot: r.now, Wall: r.wall()}, r.queue[0]) {
			r.do(a)
		}
		r.queue = r.queue[1:]
	}
}

// soon calls f in the run's loop after d, or later if the run is stopped.
func (r *run) soon(d time.Duration, f func()) {
	r.after(d, func() {
		if r.stopped {
			r.held = append(r.held, f)
		} else {
			f()
		}
	})
}

func (r *run) do(a sched.Action) {
	switch a := a.(type) {
	case sched.Prepare:
		r.prepare(a)
	case sched.Discard:
		r.after(r.between(0, ms(2)), func() { r.remove(r.live[a.UniID].claim); delete(r.live, a.UniID) })
	case sched.Yield:
		r.after(r.between(0, ms(2)), func() { r.yield(a) })
	case sched.Offer:
		r.watch.guests[a.To] = true
		r.after(r.between(0, ms(2)), func() { r.offer(a.UniID, a.UUID, a.To) })
	case sched.Wish:
		r.work.wishes++
		r.wish(r.id, a.Wish)
	case sched.Gather:
		r.gather(a)
	case sched.Ungather:
		r.after(r.between(0, ms(2)), func() { r.remove(r.kept[a.UniID]); delete(r.kept, a.UniID); r.meter.pass() })
	case sched.Launch:
		r.launch(a)
	case sched.Read:
		r.some, r.all = true, r.all || len(a.UUIDs) == 0
		r.lists = r.lists || r.all || a.Processes
		if r.next = append(r.next, a.UUIDs...); !r.reading {
			r.take()
		}
	case sched.Wake:
		r.timer++
		if mine := r.timer; a.At > 0 {
			r.soon(max(0, a.At-r.now), func() {
				if r.timer == mine && !r.done {
					r.step(sched.Woken{})
				}
			})
		}
	case sched.Finish:
		r.finish()
	case sched.End:
		r.kill(a)
	case sched.Record, sched.Warn, sched.Ack:
	default:
		panic(fmt.Sprintf("%T", a))
	}
}

// take takes the next reading: first of the driver, then of the claims.
func (r *run) take() {
	ids, lists := r.next, r.lists
	if slices.Sort(ids); r.all {
		ids = nil
	}
	ids = slices.Compact(ids)
	r.next, r.some, r.all, r.lists, r.reading = nil, false, false, false, true
	at, driver, folders := r.now, r.between(ms(1), ms(5)), time.Duration(0)
	if r.work.quick++; lists {
		driver, folders = r.between(ms(5), ms(35)), r.look()
		r.work.quick, r.work.lists = r.work.quick-1, r.work.lists+1
	}
	began := at + driver
	var readings []gpu.Reading
	r.after(driver/2, func() { readings = r.read(r, ids, lists) })
	r.soon(driver+folders, func() {
		ev := sched.Observed{Quick: !lists, Observation: gpu.Observation{At: at, Readings: readings}}
		if lists && !r.stale(began) {
			ev.Claims, ev.Wishes = r.others(r, readings), r.wished(r)
			ev.Quarantines = []gpu.Quarantine{}
		}
		rules := r.rules
		rules.At = r.wall()
		ev.Host = &rules
		if r.reading = false; r.some {
			r.take()
		}
		r.step(ev)
	})
}

// look returns the duration of the next reading of claims.
func (r *run) look() time.Duration {
	r.work.looks++
	r.watch.cost = r.between(r.looks[0], r.looks[1])
	return r.watch.cost
}

// stale reports whether a reading of claims that began at this time is older than the core's. If
// not, it becomes the core's.
func (r *run) stale(began time.Duration) bool {
	if began < r.latest {
		return true
	}
	r.latest = began
	return false
}

// notice reads the claims and wishes of other runs.
func (r *run) notice() {
	if r.again = r.noticing; r.noticing {
		return
	}
	r.noticing = true
	began := r.now
	r.soon(r.look(), func() {
		ev := sched.ClaimsChanged{Claims: r.others(r, nil), Wishes: r.wished(r)}
		if !r.stale(began) {
			r.step(ev)
		}
		if r.noticing = false; r.again {
			r.notice()
		}
	})
}

// prepare claims a grant and creates what a start needs.
func (r *run) prepare(a sched.Prepare) {
	r.count++
	uni := fmt.Sprintf("%s-%04d", r.id, r.count)
	at := &attempt{job: a.Job, began: r.now}
	r.live[uni] = at
	ours := []*claim{} // claims that the grant's devices come from
	c := &claim{run: r, uid: r.uid, owner: r.id, id: uni, share: a.Grant.Share, slots: a.Grant.Slots, memory: a.Grant.Memory, behind: a.Grant.Background, beyond: a.Grant.HostResources}
	for _, i := range a.Grant.Indices {
		c.on = append(c.on, stake{gpu: i})
		for _, o := range r.claims {
			if o.run == r && o.over && slices.ContainsFunc(o.on, func(s stake) bool { return s.gpu == i }) {
				ours = append(ours, o)
			}
		}
	}
	at.claim = c
	look, pause := r.look(), r.between(ms(1), ms(4))
	if len(ours) < len(a.Grant.Indices) { // only one claim at a time
		pause = max(pause, r.locked-r.now)
		r.locked = r.now + pause + look
	}
	r.after(pause, func() {
		if c.since = a.Grant.Since; c.since.IsZero() {
			c.since = r.wall()
		}
		r.publish(c)
		r.after(look, func() {
			if r.doubt() {
				r.remove(c)
				delete(r.live, uni)
				r.soon(0, func() {
					r.step(sched.PrepareFailed{Job: a.Job, Rival: true, Reason: "cannot read all claims of other users"})
				})
				return
			}
			r.settle(at, r.others(r, nil), ours, ms(1), 0)
		})
	})
}

// gather publishes a gathering claim.
func (r *run) gather(a sched.Gather) {
	c := &claim{run: r, uid: r.uid, owner: r.id, id: a.UniID, since: a.Grant.Since, beyond: a.Grant.HostResources, memory: asked, keeps: true}
	c.on = []stake{{gpu: r.index(a.Grant.UUIDs[0])}}
	if r.kept == nil {
		r.kept = map[string]*claim{}
	}
	r.kept[a.UniID] = c
	r.after(r.between(ms(1), ms(4)), func() {
		r.publish(c)
		r.meter.pass()
		r.soon(r.between(ms(1), ms(5)), func() {
			if !r.done {
				r.step(sched.Gathered{UniID: a.UniID, Claims: r.others(r, nil)})
			}
		})
	})
}

// settle waits until other runs have withdrawn their claims of devices that this run never
// released.
func (r *run) settle(at *attempt, others []gpu.Claim, ours []*claim, pause, waited time.Duration) {
	disputed := func(c gpu.Claim) bool {
		return slices.ContainsFunc(ours, func(o *claim) bool {
			return slices.ContainsFunc(o.on, func(s stake) bool { return r.gpus[s.gpu].UUID == c.UUID })
		})
	}
	if waited += pause; slices.ContainsFunc(others, disputed) && waited <= 2*time.Second {
		r.after(pause, func() {
			now := r.others(r, nil)
			others = slices.DeleteFunc(others, func(c gpu.Claim) bool {
				return disputed(c) && !slices.ContainsFunc(now, func(n gpu.Claim) bool { return n.Attempt == c.Attempt && n.UUID == c.UUID })
			})
			r.settle(at, others, ours, min(2*pause, ms(50)), waited)
		})
		return
	}
	r.soon(r.between(ms(1), ms(5)), func() {
		stale := r.stale(at.began)
		r.step(sched.Prepared{Job: at.job, Start: state.Fact{UniID: at.claim.id, Log: "log", Commands: []string{"true"}}, Claims: others})
		if stale {
			r.notice()
		}
	})
}

// launch starts an attempt. Its process appears on its GPUs after a delay.
func (r *run) launch(a sched.Launch) {
	at, uni := r.live[a.UniID], a.UniID
	r.left = slices.DeleteFunc(r.left, func(id int) bool { return id == at.job })
	r.after(r.between(ms(2), ms(8)), func() {
		var on []int
		for _, s := range at.claim.on {
			on = append(on, s.gpu)
		}
		runs := r.jobs[at.job].runs
		at.proc = r.start(r.uid, uni, on, min(r.between(ms(200), 3*time.Second), runs/2))
		r.meter.stands(at)
		r.soon(0, func() { r.step(sched.Started{UniID: uni, PID: 1000 + r.count, PIDStart: 1}) })
		r.after(runs, func() { r.over(uni, at, sched.Ended{End: state.End{Elapsed: runs}}) })
	})
}

// kill ends an attempt as SIGTERM does: most programs immediately, some after a checkpoint.
func (r *run) kill(a sched.End) {
	at := r.live[a.UniID]
	r.after(r.between(ms(10), 9*time.Second), func() {
		r.over(a.UniID, at, sched.Ended{End: state.End{Signal: "SIGTERM", ExitCode: -1, Why: a.Why}})
	})
}

// over hands a claim over once the attempt's last process has ended.
func (r *run) over(uni string, at *attempt, ev sched.Ended) {
	c := at.claim
	if c.over {
		return
	}
	r.end(at.proc)
	c.over, c.began = true, r.now
	r.after(r.between(0, 2*time.Second), func() { // without an offer, the keeper keeps the GPUs for its own run
		for i := range c.on {
			if c.over && c.on[i].to == "" {
				c.on[i].to = r.id
				r.changed(c, len(c.on) == 0)
			}
		}
	})
	r.after(30*time.Second, func() { r.remove(c) })
	r.soon(r.between(ms(2), ms(8)), func() {
		if ev.Signal != "" {
			r.meter.pass()
			r.left = append([]int{at.job}, r.left...)
			r.meter.wanted()
		}
		ev.UniID, ev.At = uni, r.wall()
		r.step(ev)
	})
}

// yield releases GPUs of a claim.
func (r *run) yield(a sched.Yield) {
	if at := r.live[a.UniID]; at != nil {
		for _, id := range a.UUIDs {
			r.remove(at.claim, r.index(id))
		}
	}
}

// offer offers a GPU to another run.
func (r *run) offer(uni string, id gpu.UUID, to string) {
	at := r.live[uni]
	if at == nil {
		return
	}
	for i := range at.claim.on {
		if at.claim.on[i].gpu == r.index(id) {
			at.claim.on[i].to = to
		}
	}
	r.changed(at.claim, false)
}

func (h *host) index(id gpu.UUID) int {
	return slices.IndexFunc(h.gpus, func(d gpu.Device) bool { return d.UUID == id })
}

// finish ends the run, and removes its wish and its claims.
func (r *run) finish() {
	r.done = true
	r.wish(r.id, gpu.Wish{})
	for _, c := range slices.Clone(r.claims) {
		if c.run == r {
			r.remove(c)
		}
	}
	r.meter.finished(r)
}

// stop stops the runner; its keeper and jobs continue.
func (r *run) stop() { r.stopped = true }

// resume continues the runner.
func (r *run) resume() {
	r.stopped = false
	for _, f := range r.held {
		r.after(0, f)
	}
	r.held = nil
}
