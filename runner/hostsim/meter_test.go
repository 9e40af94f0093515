package hostsim

import (
	"slices"
	"time"
)

// A meter measures how the GPUs' time is used.
type meter struct {
	host *host
	at   time.Duration
	from time.Duration // measurement starts here

	byUser  map[int]time.Duration // GPU time
	used    time.Duration         // by jobs
	idle    time.Duration         // idle time while a waiting job could have started
	open    []time.Duration       // by GPU: start of the current idle time; 0 if it is not idle
	longest time.Duration
	double  time.Duration // two jobs on one GPU
	beside  time.Duration // time of jobs on a GPU where a stranger's process was visible first
	last    time.Duration // when the last job ended
	free    []step        // number of GPUs without strangers, over time
	starts  map[int][]time.Duration
}

type step struct {
	at time.Duration
	n  int
}

func (m *meter) init(h *host) {
	m.host, m.at = h, h.now
	m.byUser, m.starts = map[int]time.Duration{}, map[int][]time.Duration{}
	m.open = make([]time.Duration, len(h.gpus))
}

// pass accounts for the time until now. It must be called before anything changes.
func (m *meter) pass() {
	h := m.host
	d := h.now - m.at
	if m.at = h.now; d <= 0 || h.now <= m.from {
		m.wanted()
		return
	}
	for i := range h.gpus {
		jobs, strangers := 0, 0
		for p := range h.running(i) {
			if p.attempt == "" {
				strangers++
				continue
			}
			jobs++
			m.byUser[p.uid] += d
			if p.beside {
				m.beside += d
			}
		}
		if jobs > 0 {
			m.used += d
		}
		if jobs > 1 {
			m.double += d
		}
		if jobs+strangers == 0 && m.open[i] > 0 {
			m.idle += d
		}
	}
	m.wanted()
}

// gathers reports whether anyone other than q gathers a GPU.
func (h *host) gathers(q waiter, i int) bool {
	return slices.ContainsFunc(h.claims, func(c *claim) bool {
		return c.keeps && waiter(c.run) != q && c.on[0].gpu == i
	})
}

// wanted finds GPUs that are idle although a job could use them, and that no run gathers.
func (m *meter) wanted() {
	h := m.host
	wanted := make([]bool, len(h.gpus))
	var idle []int
	for i := range h.gpus {
		if h.idle(i) {
			idle = append(idle, i)
		}
	}
	if len(idle) > 0 {
		for _, q := range h.queues {
			free := idle
			if len(h.claims) > 0 {
				free = slices.DeleteFunc(slices.Clone(idle), func(i int) bool { return h.gathers(q, i) })
			}
			if n, each := q.waits(); n > 0 && each <= len(free) {
				for _, i := range free {
					wanted[i] = true
				}
			}
		}
	}
	for i := range h.gpus {
		switch is := wanted[i]; {
		case is && m.open[i] == 0:
			m.open[i] = h.now
		case !is && m.open[i] > 0:
			m.closed(h.now - m.open[i])
			m.open[i] = 0
		}
	}
}

func (m *meter) closed(d time.Duration) {
	if m.host.now <= m.from {
		return
	}
	m.longest = max(m.longest, d)
}

// began must be called when a process has started.
func (m *meter) began(p *process) {
	if p.attempt != "" {
		m.starts[p.uid] = append(m.starts[p.uid], m.host.now)
	}
	m.changed()
}

// changed must be called when processes have changed.
func (m *meter) changed() {
	m.wanted()
	n := 0
	for i := range m.host.gpus {
		strangers, jobs := 0, 0
		for p := range m.host.running(i) {
			if p.attempt == "" {
				strangers++
			} else {
				jobs++
			}
		}
		if strangers == 0 || jobs > 0 {
			n++
		}
	}
	m.free = append(m.free, step{m.host.now, n})
}

// stands records whether an attempt that has just begun shares a GPU with a stranger's process that
// was visible before the grant.
func (m *meter) stands(at *attempt) {
	for _, i := range at.proc.on {
		for p := range m.host.running(i) {
			at.proc.beside = at.proc.beside || p.attempt == "" && p.seen < at.began-ms(50)
		}
	}
}

func (m *meter) finished(*run) { m.last = m.host.now }

// share returns the fraction used of the GPU time that jobs used or waited for.
func (m *meter) share() float64 { return float64(m.used) / float64(m.used+m.idle) }

// bound returns the earliest time at which jobs with these arrivals could be done, on the GPUs
// without strangers.
func (m *meter) bound(came []arrival) time.Duration {
	end, backlog := time.Duration(0), 0.0
	slices.SortFunc(came, func(a, b arrival) int { return int(a.at - b.at) })
	k := 0
	for i := range m.free {
		from, until := m.free[i].at, time.Duration(1<<62)
		if i+1 < len(m.free) {
			until = m.free[i+1].at
		}
		for from < until {
			for k < len(came) && came[k].at <= from {
				backlog += came[k].work
				end = max(end, came[k].at+came[k].longest)
				k++
			}
			next := until
			if k < len(came) {
				next = min(next, came[k].at)
			}
			if backlog > 0 && m.free[i].n > 0 {
				over := from + time.Duration(backlog/float64(m.free[i].n)*float64(time.Second))
				if over <= next {
					end, backlog = max(end, over), 0
				} else {
					backlog -= (next - from).Seconds() * float64(m.free[i].n)
				}
			}
			if from = next; k == len(came) && backlog <= 0 {
				return end
			}
		}
	}
	return end
}

// An arrival is a batch of jobs.
type arrival struct {
	at      time.Duration
	work    float64 // GPU seconds
	longest time.Duration
}
