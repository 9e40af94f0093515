package hostsim

import (
	"fmt"
	"math"
	"math/rand/v2"
	"time"

	"gpurun/gpu"
)

// A cheat is a user who breaks the rules, or whose run cannot follow them.
type cheat struct {
	name  string
	works bool    // they have jobs like the others, so their fair share is a fourth
	early bool    // they come first, to an empty host
	gets  float64 // maximum fraction of their fair share
	most  float64 // maximum GPU seconds that this may cost the others in two hours
	play  func(h *host, jobs []job)
}

const cheater = 1004

var cheats = []cheat{
	{"never yields, and came last", true, false, 1.25, 100, func(h *host, jobs []job) { h.gpurun(cheater, jobs).deaf = true }},
	{"never yields, and found all GPUs empty", true, true, 4.1, 44000, func(h *host, jobs []job) { h.gpurun(cheater, jobs).deaf = true }},
	{"has eight runs instead of one", true, false, 1.25, 100, func(h *host, jobs []job) {
		for i := range 8 {
			h.gpurun(cheater, jobs[i*len(jobs)/8:(i+1)*len(jobs)/8])
		}
	}},
	{"is suspended after ten minutes", true, false, 1.25, 100, func(h *host, jobs []job) {
		r := h.gpurun(cheater, jobs)
		h.after(hours(1.0/6), r.stop)
	}},
	{"is suspended every other second", true, false, 1.25, 300, func(h *host, jobs []job) {
		r := h.gpurun(cheater, jobs)
		var toggle func()
		toggle = func() {
			if r.stopped {
				r.resume()
			} else {
				r.stop()
			}
			h.after(time.Second, toggle)
		}
		toggle()
	}},
	{"has eight background runs", false, false, 1.25, 400, func(h *host, jobs []job) {
		for i := range 8 {
			h.behind(cheater, jobs[i*len(jobs)/8:(i+1)*len(jobs)/8])
		}
	}},
	{"has eight background runs, and was there first", false, true, 0.2, 800, func(h *host, jobs []job) {
		for i := range 8 {
			h.behind(cheater, jobs[i*len(jobs)/8:(i+1)*len(jobs)/8])
		}
	}},
	{"wishes for GPUs but never takes them", false, false, 1.25, 300, func(h *host, _ []job) { h.wish("ghost", h.ghost("ghost", h.wall())) }},
	{"renews such a wish every 5 s", false, false, 1.25, 400, func(h *host, _ []job) {
		n := 0
		var renew func()
		renew = func() {
			h.wish(fmt.Sprint("ghost", n), gpu.Wish{})
			n++
			id := fmt.Sprint("ghost", n)
			h.wish(id, h.ghost(id, h.wall()))
			h.after(5*time.Second, renew)
		}
		renew()
	}},
	{"has eight such wishes", false, false, 1.25, 400, func(h *host, _ []job) {
		for i := range 8 {
			id := fmt.Sprint("ghost", i)
			h.wish(id, h.ghost(id, epoch))
		}
	}},
	{"takes each offer but starts nothing", false, false, 1.25, 14400, func(h *host, _ []job) {
		h.wish("ghost", h.ghost("ghost", epoch))
		h.grab("ghost")
	}},
	{"gathers all GPUs but starts nothing", false, false, 1.25, 10000, func(h *host, _ []job) {
		w := h.ghost("ghost", epoch)
		w.Gathers, w.Requests[0].Min = true, 8
		h.wish("ghost", w)
		for i := range h.gpus {
			h.publish(&claim{uid: cheater, memory: asked, owner: "ghost", id: fmt.Sprint("ghost-", i), since: h.wall(), keeps: true, on: []stake{{gpu: i}}})
		}
	}},
	{"claims a random GPU for 0.1 s, every 0.3 s", false, false, 1.25, 400, func(h *host, _ []job) {
		n := 0
		var toggle func()
		toggle = func() {
			n++
			c := &claim{uid: cheater, memory: asked, owner: "ghost", since: h.wall(), id: fmt.Sprint("ghost-", n), on: []stake{{gpu: h.rng.IntN(len(h.gpus))}}}
			h.publish(c)
			h.after(100*time.Millisecond, func() { h.remove(c) })
			h.after(300*time.Millisecond, toggle)
		}
		toggle()
	}},
	{"makes the folder of claims unreadable for 10 s an hour", false, false, 1.25, 200, func(h *host, _ []job) {
		h.doubt = h.unreadable
	}},
	// The folder has slightly more files than gpurun reads per user.
	{"fills that folder, so that each reading takes 0.1 to 0.25 s", false, false, 1.25, 600, func(h *host, _ []job) {
		h.looks = [2]time.Duration{ms(100), ms(250)}
		h.doubt = h.unreadable
	}},
}

// unreadable reports whether claims cannot be read at the moment: for 10 s, twice in a simulation.
func (h *host) unreadable() bool { return h.now%(rivalFor()/2) < 10*time.Second }

// ghost returns a wish without a run.
func (h *host) ghost(run string, since time.Time) gpu.Wish {
	a := gpu.WishRequest{Jobs: 8, Min: 1, Memory: asked, MaxUtil: 30, Others: gpu.OthersAllow, Room: 8}
	for _, d := range h.gpus {
		a.UUIDs = append(a.UUIDs, d.UUID)
	}
	return gpu.Wish{Run: run, UID: cheater, User: "ghost", Since: since, Requests: []gpu.WishRequest{a}}
}

// grab claims each GPU offered to a run, keeps the claim for a second, and runs nothing.
func (h *host) grab(owner string) {
	for _, c := range h.claims {
		for _, s := range c.on {
			if s.to == owner && c.run != nil {
				mine := &claim{uid: cheater, memory: asked, owner: owner, since: h.wall(), id: fmt.Sprint(owner, "-", h.now), on: []stake{{gpu: s.gpu}}}
				h.after(0, func() { h.publish(mine) })
				h.after(time.Second, func() { h.remove(mine) })
			}
		}
	}
	h.after(ms(100), func() { h.grab(owner) })
}

// latecomer is when the fourth user arrives.
const latecomer = 90 * time.Second

// rivalFor returns the simulated time of a rivalry.
func rivalFor() time.Duration {
	if *brief {
		return 2 * time.Minute
	}
	return 2 * time.Hour
}

// rivalry simulates two hours of three users with endless work and a fourth user: the cheat, an
// honest one, or none.
func rivalry(seed uint64, c *cheat, honest bool) *host {
	rng := rand.New(rand.NewPCG(seed, 13))
	h := newHost(seed, 8)
	work := func() (jobs []job) {
		for range fewer(600) {
			jobs = append(jobs, job{1, hours((1 + 2*rng.Float64()) / 60)})
		}
		return jobs
	}
	for uid := 1001; uid <= 1003; uid++ {
		jobs := work()
		h.after(shorter(time.Minute+time.Duration(rng.Float64()*float64(20*time.Second))), func() { h.gpurun(uid, jobs) })
	}
	jobs, comes := work(), shorter(latecomer)
	if c != nil && c.early {
		comes = 0
	}
	h.after(comes, func() {
		switch {
		case c != nil:
			c.play(h, jobs)
		case honest:
			h.gpurun(cheater, jobs)
		}
	})
	h.meter.from = h.now + hours(1.0/6)
	h.play(h.meter.from + rivalFor())
	return h
}

// honest returns the GPU seconds of the honest users.
func (h *host) honest() (seconds float64) {
	for uid := 1001; uid <= 1003; uid++ {
		seconds += h.meter.byUser[uid].Seconds()
	}
	return seconds
}

// wide returns how many seconds after the host's patience a job on all GPUs starts, among the work
// of three other users.
func wide(seed uint64) float64 {
	h := rivalry(seed, &cheat{play: func(h *host, _ []job) { h.gpurun(cheater, []job{{len(h.gpus), time.Second}}) }}, false)
	starts := h.meter.starts[cheater]
	if len(starts) == 0 {
		return math.Inf(1)
	}
	return (starts[0] - time.Hour - shorter(latecomer) - h.rules.Patience).Seconds()
}
