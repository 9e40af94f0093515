package hostsim

import (
	"math/rand/v2"
	"time"
)

// mixedDay returns a day on 8 GPUs with three users: one has 1,000 jobs, one has 10 separate jobs
// an hour, and one has 40 jobs on 4 GPUs each.
func mixedDay(seed uint64) (d day) {
	rng := rand.New(rand.NewPCG(seed, 11))
	minutes := func(a, b float64) time.Duration {
		return hours((a + rng.Float64()*(b-a)) / 60)
	}
	many, wide := batch{uid: 1001}, batch{uid: 1003, at: minutes(0, 10)}
	for range fewer(1000) {
		many.jobs = append(many.jobs, job{1, minutes(1, 9)})
	}
	for range fewer(40) {
		wide.jobs = append(wide.jobs, job{4, minutes(5, 15)})
	}
	d.batches = []batch{many, wide}
	for at := time.Duration(0); at < hours(10); at += hours(rng.ExpFloat64() / 10) {
		d.batches = append(d.batches, batch{uid: 1002, at: at, jobs: []job{{1, minutes(5, 20)}}})
	}
	return d
}
