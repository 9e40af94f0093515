package hostsim

import (
	"math"
	"math/rand/v2"
	"time"
)

// A day is the work on a host, independent of the scheduler.
type day struct {
	batches []batch
	guests  []handUser
}

type batch struct {
	uid  int
	at   time.Duration
	jobs []job
}

// shorter scales a time of the day: in brief mode, a day lasts four hours. The overhead between
// jobs is not scaled.
func shorter(d time.Duration) time.Duration {
	if *brief {
		d /= 6
	}
	return d
}

func hours(n float64) time.Duration { return shorter(time.Duration(n * float64(time.Hour))) }

// fewer scales a number, or a duration, to a fifth in brief mode.
func fewer[T int | time.Duration](n T) T {
	if *brief {
		n /= 5
	}
	return n
}

// randomDay generates a day on n GPUs: three users submit batches in its first half, and three
// others start programs by hand.
func randomDay(seed uint64, n int) day {
	rng := rand.New(rand.NewPCG(seed, 7))
	var d day
	for uid := 1001; uid <= 1003; uid++ {
		for range 2 + rng.IntN(4) {
			b := batch{uid: uid, at: hours(rng.Float64() * 12)}
			median := math.Exp(rng.Float64()*math.Log(40)) / 60 // a minute to 40
			each := 1
			if rng.IntN(5) == 0 {
				each = 2
			}
			for range 5 + rng.IntN(60) {
				b.jobs = append(b.jobs, job{each, hours(median * math.Exp(rng.NormFloat64()*0.5))})
			}
			d.batches = append(d.batches, b)
		}
	}
	for uid := 2001; uid <= 2003; uid++ {
		for at := 0.0; at < 24; at += rng.ExpFloat64() * 3 {
			d.guests = append(d.guests, handUser{
				uid: uid, at: hours(at), types: time.Duration(5+rng.IntN(25)) * time.Second,
				runs: hours(rng.ExpFloat64() * 1.5), where: uint64(rng.IntN(n)),
			})
		}
	}
	return d
}

// arrivals returns the batches of a day by time.
func (d *day) arrivals(from time.Duration) (list []arrival) {
	for _, b := range d.batches {
		a := arrival{at: from + b.at}
		for _, j := range b.jobs {
			a.work += j.runs.Seconds() * float64(j.gpus)
			a.longest = max(a.longest, j.runs)
		}
		list = append(list, a)
	}
	return list
}

// A how sets up a scheduler on a host, and returns the function that submits jobs to it.
type how func(h *host) func(uid int, jobs []job)

func byGpurun(h *host) func(int, []job) { return func(uid int, jobs []job) { h.gpurun(uid, jobs) } }

// byPolling is gpurun when one of three users cannot watch folders.
func byPolling(h *host) func(int, []job) {
	h.blind = func(uid int) bool { return uid == 1002 }
	return byGpurun(h)
}
func byLoop(h *host) func(int, []job) { return h.loop }
func byCentral(h *host) func(int, []job) {
	return h.central().add
}

// play simulates a day on n GPUs until all of its jobs have ended.
func (d *day) play(seed uint64, n int, by how) *host {
	h := newHost(seed, n)
	start := by(h)
	began := h.now
	for _, g := range d.guests {
		h.byHand(g)
	}
	for _, b := range d.batches {
		h.after(b.at, func() { start(b.uid, b.jobs) })
	}
	for h.now < began+hours(4*24) {
		h.play(h.now + hours(1))
		if h.now > began+hours(13) && h.over() {
			break
		}
	}
	return h
}

// over reports whether no jobs are waiting or running.
func (h *host) over() bool {
	for _, q := range h.queues {
		if n, _ := q.waits(); n > 0 {
			return false
		}
	}
	for _, p := range h.procs {
		if p.attempt != "" && p.gone == 0 {
			return false
		}
	}
	return true
}
