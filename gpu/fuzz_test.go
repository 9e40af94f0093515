package gpu

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"
	"time"
)

// A machine is the true state of a host: strangers, whose memory only shrinks; attempts, which
// allocate any part of their grants; and the memory of ended attempts, which lingers.
type machine struct {
	pool     *Pool
	now      time.Duration
	devs     []Device
	stranger []Bytes
	lingers  []Bytes
	live     []liveAttempt // in start order
	started  int
	script   []byte
}

type liveAttempt struct {
	name  string
	grant Grant
	taken Bytes
}

// next returns the script's next byte modulo n.
func (m *machine) next(n int) int {
	if len(m.script) == 0 {
		return 0
	}
	b := m.script[0]
	m.script = m.script[1:]
	return int(b) % n
}

func newMachine(script []byte) *machine {
	m := &machine{script: script, devs: some(3, 24*GiB)}
	rules := anyone()
	rules.Pick = []Pick{MostFree, LeastUtil, FirstFit, BestFit, RoundRobin}[m.next(5)]
	if m.next(3) == 0 {
		rules.MaxGPUs, rules.Reserve = 1+m.next(3), m.next(2)
	}
	if m.next(3) == 0 {
		rules.Host = NoHostRules()
		rules.Host.MaxGPUsPerUser, rules.Host.MaxGPUsPerJob, rules.Host.Reserve = m.next(4), 1+m.next(3), m.next(2)
	}
	for range m.devs {
		m.stranger = append(m.stranger, Bytes(m.next(24))*GiB)
		m.lingers = append(m.lingers, 0)
	}
	if a, b := m.next(3), m.next(3); a != b {
		link(m.devs, nearer[m.next(4)], a, b)
	}
	m.pool = NewPool(m.devs, rules)
	return m
}

// on returns the memory that attempts use on a device, and the memory they were granted there.
func (m *machine) on(id UUID) (taken, granted Bytes) {
	for _, a := range m.live {
		if slices.Contains(a.grant.UUIDs, id) {
			taken += a.taken
			granted += a.grant.Memory
		}
	}
	return taken, granted
}

func (m *machine) reading(i int, full bool) Reading {
	d := m.devs[i]
	taken, _ := m.on(d.UUID)
	r := Reading{UUID: d.UUID, Total: d.Total, Used: m.stranger[i] + m.lingers[i] + taken}
	r.Free = r.Total - r.Used
	if !full {
		return r
	}
	r.Listed = true
	r.Samples = []Sample{{At: m.now, Percent: 0}}
	if m.stranger[i] > 0 {
		r.Processes = append(r.Processes, Process{PID: 1, UID: bob, Memory: m.stranger[i]})
	}
	for _, a := range m.live {
		if slices.Contains(a.grant.UUIDs, d.UUID) && a.taken > 0 {
			r.Processes = append(r.Processes, Process{PID: 2, UID: me, Memory: a.taken, Attempt: a.name})
		}
	}
	return r
}

// step performs one action and returns a description of it.
func (m *machine) step() string {
	switch m.next(10) {
	case 0:
		m.now += time.Duration(m.next(200)) * 100 * time.Millisecond
	case 1, 2:
		snap := Observation{At: m.now}
		for i := range m.devs {
			snap.Readings = append(snap.Readings, m.reading(i, true))
		}
		m.pool.Observe(snap)
	case 3:
		m.pool.Observe(Observation{At: m.now, Readings: []Reading{m.reading(m.next(len(m.devs)), m.next(2) == 0)}})
	case 4, 5:
		return m.start()
	case 6:
		m.end()
	case 7:
		if len(m.live) > 0 {
			a := &m.live[m.next(len(m.live))]
			a.taken = a.grant.Memory * Bytes(m.next(5)) / 4
		}
	case 8:
		i := m.next(len(m.devs))
		m.stranger[i] = m.stranger[i] * Bytes(m.next(3)) / 2 // halved, gone or unchanged
		m.lingers[i] = 0
	case 9:
		m.ail()
	}
	return ""
}

// ail quarantines a device, or observes quarantines by users.
func (m *machine) ail() {
	id := m.devs[m.next(3)].UUID
	if m.next(2) == 0 {
		m.pool.Quarantine(m.now, time.Time{}, id, "", nil)
		return
	}
	seen := Observation{At: m.now, Quarantines: []Quarantine{}}
	for uid := range m.next(3) {
		q := Quarantine{UUID: id, UID: []int{me, bob}[uid]}.Again(m.now, time.Time{})
		q.Ends = m.now + time.Duration(m.next(100))*time.Second
		seen.Quarantines = append(seen.Quarantines, q)
	}
	m.pool.Observe(seen)
}

func (m *machine) start() string {
	req := Request{Min: 1 + m.next(2), Memory: Bytes(m.next(13)) * GiB, MaxUtil: 100, Share: m.next(3) > 0}
	req.Max = req.Min + m.next(2)
	if req.Share {
		req.Slots = m.next(4)
		req.Part = req.Slots > 0 && m.next(2) == 0
	}
	if m.next(4) == 0 {
		req.Avoid = NamesOf([]string{string(m.devs[m.next(3)].UUID)})
	}
	var kept []UUID
	if m.next(4) == 0 {
		kept = []UUID{m.devs[m.next(3)].UUID}
	}
	g, ok := m.pool.Find(m.now, req, kept)
	if !ok {
		return "none"
	}
	if len(g.UUIDs) < req.Min || len(g.UUIDs) > req.Max {
		return fmt.Sprintf("WRONG: granted %d devices for %+v", len(g.UUIDs), req)
	}
	for _, k := range kept {
		if slices.Contains(g.UUIDs, k) {
			return "WRONG: granted a kept device"
		}
	}
	for _, id := range g.UUIDs {
		if _, sick := m.pool.Quarantined(m.now, id); sick || slices.Contains(req.Avoid.List(), string(id)) {
			return fmt.Sprintf("WRONG: granted %s, which is quarantined or avoided", id)
		}
	}
	m.started++
	name := fmt.Sprint("a", m.started)
	m.pool.Hold("new", g)
	m.pool.Rename("new", name)
	m.live = append(m.live, liveAttempt{name: name, grant: g})
	return fmt.Sprint(name, g)
}

func (m *machine) end() {
	if len(m.live) == 0 {
		return
	}
	i := m.next(len(m.live))
	a := m.live[i]
	m.live = slices.Delete(m.live, i, i+1)
	m.pool.Release(m.now, a.name)
	for j, d := range m.devs {
		if slices.Contains(a.grant.UUIDs, d.UUID) {
			m.lingers[j] += a.taken
		}
	}
}

// check returns how the grants contradict the true state or a limit, or "".
func (m *machine) check() string {
	held := 0
	for i, d := range m.devs {
		exclusive, all, slots := 0, 0, math.MaxInt
		for _, a := range m.live {
			if slices.Contains(a.grant.UUIDs, d.UUID) {
				all++
				if !a.grant.Share {
					exclusive++
				}
				if a.grant.Slots > 0 {
					slots = min(slots, a.grant.Slots)
				}
			}
		}
		held += min(1, all)
		if all > slots {
			return fmt.Sprintf("GPU %d: %d attempts, slots %d", i, all, slots)
		}
		if exclusive > 0 && all > 1 {
			return fmt.Sprintf("GPU %d: %d attempts, of which %d do not share", i, all, exclusive)
		}
		if _, granted := m.on(d.UUID); m.stranger[i]+m.lingers[i]+granted > d.Total {
			return fmt.Sprintf("GPU %d: granted %s, lingering %s, strangers %s", i, granted, m.lingers[i], m.stranger[i])
		}
	}
	if most := m.pool.rules.MaxGPUs; most >= 0 && held > most {
		return fmt.Sprintf("%d GPUs held, max_gpus %d", held, most)
	}
	h := m.pool.Host()
	if held != m.pool.Held() || h.MaxGPUsPerUser >= 0 && held > h.MaxGPUsPerUser {
		return fmt.Sprintf("%d GPUs held, the pool counts %d, max_gpus_per_user %d", held, m.pool.Held(), h.MaxGPUsPerUser)
	}
	for _, a := range m.live {
		if n := len(a.grant.UUIDs); h.MaxGPUsPerJob >= 0 && n > h.MaxGPUsPerJob || h.Reserve > 0 && slices.Contains(a.grant.UUIDs, m.devs[2].UUID) {
			return fmt.Sprintf("%s has %v, max_gpus_per_job %d, reserve %d", a.name, a.grant.UUIDs, h.MaxGPUsPerJob, h.Reserve)
		}
	}
	return ""
}

// play runs a script and returns all grants.
func play(t *testing.T, script []byte) string {
	m := newMachine(script)
	log := ""
	for len(m.script) > 0 {
		did := m.step()
		log += did + "\n"
		if bad := m.check(); bad != "" || len(did) > 5 && did[:5] == "WRONG" {
			t.Fatalf("%s\n%s", bad, log)
		}
	}
	return log
}

func FuzzPool(f *testing.F) {
	for seed := range uint64(200) {
		r := rand.New(rand.NewPCG(seed, 1))
		script := make([]byte, 300)
		for i := range script {
			script[i] = byte(r.Uint32())
		}
		f.Add(script)
	}
	f.Fuzz(func(t *testing.T, script []byte) {
		if a, b := play(t, script), play(t, script); a != b {
			t.Errorf("the same events led to\n%s\nand\n%s", a, b)
		}
	})
}
