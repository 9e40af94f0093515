package sched

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	"gpurun/gpu"
	"gpurun/jobspec"
)

// Why returns what a job that has not started is waiting for, using the same tests that
// starting uses, or "" if nothing.
func (c *Core) Why(now Now, id int) string {
	was := c.now
	c.now = now
	defer func() { c.now = was }()
	j := &c.jobs[id]
	switch j.phase {
	case waiting:
		return c.whyRetry(int32(id))
	case blocked:
		return c.whyBlocked(int32(id))
	case held:
		return c.whyHeld(int32(id))
	case pending:
		if c.draining != "" {
			return "nothing more starts: " + c.draining
		}
		return c.whyPending(int32(id))
	case ready:
		if c.draining != "" {
			return "nothing more starts: " + c.draining
		}
		return c.whyReady(int32(id))
	}
	return ""
}

func (c *Core) whyRetry(id int32) string {
	for _, d := range c.backoff {
		if d.id == id {
			return fmt.Sprintf("attempt %d in %s", c.jobs[id].attempt+1, round(d.at-c.now.Boot))
		}
	}
	return ""
}

func round(d time.Duration) time.Duration {
	if d < 10*time.Second {
		return max(d, 0).Round(100 * time.Millisecond)
	}
	return d.Round(time.Second)
}

func (c *Core) whyBlocked(id int32) string {
	for _, n := range c.b.Jobs[id].Needs {
		switch p := c.jobs[n].phase; {
		case p == unselected && !c.succeededBefore(n):
			return fmt.Sprintf("need %s is not selected and has not succeeded", c.name(n))
		case p.over() && !p.good() && p != interrupted:
			return fmt.Sprintf("need %s: %s", c.name(n), p.public())
		}
	}
	return "it and other jobs wait for each other"
}

func (c *Core) whyPending(id int32) string {
	if !c.begun {
		return "looking for attempts of an earlier run"
	}
	j := &c.jobs[id]
	if j.unmet > 0 {
		return c.whyNeeds(id)
	}
	if j.held > 0 || j.own > 0 {
		for a := c.live.first; a != nil; a = a.next {
			if a.follows == id || a.job == id {
				return fmt.Sprintf("an attempt of an earlier run is still running (pid %d, since %s)", a.pid, a.start.Format("15:04"))
			}
		}
	}
	if q := c.b.Jobs[id].Queue; q >= 0 {
		if h := c.queueHead(&c.queues[q]); h != id && h >= 0 {
			return fmt.Sprintf("queue %s: %s goes first", queueName(c.b.Queues[q]), c.name(h))
		}
		if name := c.inQueue(q); name != "" {
			return fmt.Sprintf("queue %s: %s is running", queueName(c.b.Queues[q]), name)
		}
	}
	return ""
}

// whyNeeds names the first need that has not ended and counts the others.
func (c *Core) whyNeeds(id int32) string {
	unmet := c.jobs[id].unmet
	for _, n := range c.b.Jobs[id].Needs {
		p := c.jobs[n].phase
		if p == unselected || p.over() && p != interrupted {
			continue
		}
		word := "needs"
		if w := c.spec(id).When; w == jobspec.Always || w == jobspec.OnFailure {
			word = "runs after"
		}
		if unmet > 1 {
			return fmt.Sprintf("%s %s and %d more", word, c.name(n), unmet-1)
		}
		return word + " " + c.name(n)
	}
	return ""
}

// whyReady returns the limit or the GPUs that a ready job waits for.
func (c *Core) whyReady(id int32) string {
	cl := c.classes.all[c.jobs[id].class]
	if why := c.slots(); why != "" {
		return why
	}
	if why := c.room(id, cl); why != "" {
		return why
	}
	if !cl.gpus {
		return ""
	}
	if c.gaveUp {
		return "gave up: no GPU became free in time"
	}
	aside := c.aside()
	if id != c.waiter.id {
		aside = append(aside, c.waiter.kept...)
	}
	if _, ok := c.pool.Find(c.now.Boot, cl.req, aside); ok {
		if h := c.waiter.id; h >= 0 && h != id && c.ranks.of(h) < c.ranks.of(id) {
			return c.name(h) + " goes first"
		}
		return ""
	}
	return wants(cl.req) + "; " + c.whyNot(id, c.pool.Admit(c.now.Boot, cl.req))
}

// wants describes what a request asks for, e.g. "needs 2 GPUs with 40 GiB each".
func wants(r gpu.Request) string {
	if r.Min > 1 {
		return fmt.Sprintf("needs %d GPUs with %s each", r.Min, r.Memory.Asked())
	}
	return "needs " + r.Memory.Asked()
}

// maxReasons bounds the reasons that are listed one by one.
const maxReasons = 4

// Judged describes what a request asks for and, for each GPU that could ever serve it,
// whether that GPU is free now, and if not, why.
func Judged(r gpu.Request, verdicts []gpu.Verdict) string {
	return wants(r) + "; " + together(verdicts, func(v gpu.Verdict) string {
		switch {
		case !v.OK:
			return v.Reason
		case v.Note != "":
			return "free now, " + v.Note
		}
		return "free now"
	})
}

// whyNot returns, for each GPU that could ever serve the job, why it cannot now.
func (c *Core) whyNot(id int32, verdicts []gpu.Verdict) string {
	return together(verdicts, func(v gpu.Verdict) string { return c.whyNotOn(id, v) })
}

// together describes each GPU with say and groups those with the same description. GPUs
// with an empty description count as free.
func together(verdicts []gpu.Verdict, say func(gpu.Verdict) string) string {
	var reasons []string
	alike := map[string][]int{} // GPU indices by reason
	free := 0
	for _, v := range verdicts {
		if v.Never {
			continue
		}
		reason := say(v)
		if reason == "" {
			free++
			continue
		}
		if alike[reason] == nil {
			reasons = append(reasons, reason)
		}
		alike[reason] = append(alike[reason], v.Index)
	}
	var words []string
	if free > 0 {
		words = append(words, fmt.Sprintf("%d free now", free))
	}
	more := 0
	for i, reason := range reasons {
		if i < maxReasons {
			words = append(words, gpuNumbers(alike[reason])+": "+reason)
		} else {
			more += len(alike[reason])
		}
	}
	if more > 0 {
		words = append(words, fmt.Sprintf("and %d more", more))
	}
	if len(words) == 0 {
		return "no GPU here qualifies"
	}
	return strings.Join(words, "; ")
}

// whyNotOn returns why a job cannot have a particular GPU now, or "" if it can.
func (c *Core) whyNotOn(id int32, v gpu.Verdict) string {
	switch {
	case has(c.excluded, v.UUID):
		return "released by stop --gpu"
	case id != c.waiter.id && has(c.waiter.kept, v.UUID) && v.OK:
		return "kept for " + c.name(c.waiter.id)
	case c.isShunned(v.UUID):
		return "another run just took it"
	case v.OK:
		return ""
	}
	return v.Reason
}

// gpuNumbers formats indices as "GPU 3", "GPU 0, 2" or "GPU 0-2, 5".
func gpuNumbers(ids []int) string {
	var s []string
	for i := 0; i < len(ids); {
		k := i + 1
		for k < len(ids) && ids[k] == ids[k-1]+1 {
			k++
		}
		switch k - i {
		case 1:
			s = append(s, strconv.Itoa(ids[i]))
		case 2:
			s = append(s, strconv.Itoa(ids[i]), strconv.Itoa(ids[i+1]))
		default:
			s = append(s, fmt.Sprintf("%d-%d", ids[i], ids[k-1]))
		}
		i = k
	}
	return "GPU " + strings.Join(s, ", ")
}

func (c *Core) isShunned(id gpu.UUID) bool {
	for _, s := range c.shunned {
		if s.id == id && s.until > c.now.Boot {
			return true
		}
	}
	return false
}

func has(ids []gpu.UUID, id gpu.UUID) bool {
	for _, x := range ids {
		if x == id {
			return true
		}
	}
	return false
}

// queueName returns the part of a queue's identity that the job file spells out.
func queueName(q string) string {
	if _, name, ok := strings.Cut(q, "\x00"); ok {
		return name
	}
	return q
}

// inQueue returns the job name of a live attempt in a queue, or "".
func (c *Core) inQueue(q int32) string {
	if c.queues[q].busy == 0 {
		return ""
	}
	for a := c.live.first; a != nil; a = a.next {
		if a.job >= 0 && c.b.Jobs[a.job].Queue == q {
			return a.name
		}
	}
	return ""
}
