package cluster

import (
	"fmt"
	"time"

	"gpurun/runner/engine"
)

// A quota is how many GPUs all of the user's jobs in the cluster may ask for, queued or running.
// His other runs and what he submits himself count.
type quota struct {
	most   int       // 0 for any number
	others int       // of jobs but this run's, in the last list
	heard  time.Time // when that came
	full   bool      // and it left no room; only a regular list, or an end, may change that
}

// freshFor is how old a list may be by which something is submitted.
const freshFor = time.Second

// learn counts what others have. open are this run's own tasks.
func (q *quota) learn(rows []Row, open map[string]bool) {
	q.others, q.heard, q.full = 0, time.Now(), false
	for _, r := range rows {
		if r.State.final() {
			continue
		}
		for n := r.First; n <= r.Last; n++ {
			if r.Rest || !open[taskName(idIn(r.Name), n)] {
				q.others += r.GPUs
			}
		}
	}
}

// room returns how many attempts of this many GPUs fit beside what this run has submitted.
func (q *quota) room(submitted, gpus int) int { return max(0, q.most-q.others-submitted) / gpus }

// within returns how many of n attempts that wait, for so many GPUs each, may be submitted now.
func (c *Cluster) within(n, gpus int) int {
	q := &c.quota
	if q.most == 0 || gpus == 0 {
		return n
	}
	if time.Since(q.heard) > freshFor {
		c.unclear = c.unclear || !q.full
		return 0
	}
	submitted := 0
	for _, e := range c.live {
		if e.submit != nil {
			submitted += e.gpus
		}
	}
	n = min(n, q.room(submitted, gpus))
	if q.full = n == 0; q.full {
		why := fmt.Sprintf("your jobs on %s ask for %d GPUs and cluster.max_gpus_total is %d", c.dialect.Name(), q.others+submitted, q.most)
		for _, l := range c.queue {
			c.show(c.live[l.UniID], engine.Queued{Reason: why})
		}
	}
	return n
}

// Asking returns how many GPUs the user's jobs in the cluster ask for, queued or running.
func Asking(w Dialect, user string) (int, error) {
	out, err := w.List(user).output()
	if err != nil {
		return 0, err
	}
	rows, err := w.Rows(out)
	var q quota
	q.learn(rows, nil)
	return q.others, err
}

// asked returns how many GPUs a launch asks for.
func asked(l *engine.Launch) int {
	if l.Ask == nil {
		return 0
	}
	return l.Ask.GPUs
}
