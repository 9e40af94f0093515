package probe

import (
	"cmp"
	"context"
	"fmt"
	"hash/fnv"
	"io"
	"os"
	"slices"
	"sync"
	"time"

	"gpurun/gpu"
	"gpurun/state/host"
)

// sampleWindow is how many seconds of utilization a simulated device remembers, with one sample per
// second, like a driver's buffer.
const sampleWindow = 16

// A Sim is a set of simulated GPUs. Jobs placed on one allocate the memory they were granted. The
// load of other users comes from the simulation file. Unlike other probers, a Sim is safe for
// concurrent use.
type Sim struct {
	mu      sync.Mutex
	now     func() time.Duration
	start   time.Duration
	spec    simulation
	private bool
	devs    []gpu.Device
	of      []*simGPU // in the order of devs
	uids    map[string]int
	me      string
	placed  []placement // in start order
	claimed []placement // jobs of other runs
}

// A placement is a job on its devices.
type placement struct {
	uniID string // of an attempt of this run
	pid   int
	uid   int
	user  string
	grant gpu.Grant
	from  time.Duration
	to    time.Duration // -1 while it runs
}

func (p *placement) lives(at time.Duration) bool { return at >= p.from && (p.to < 0 || at < p.to) }

func (p *placement) on(id gpu.UUID) bool { return slices.Contains(p.grant.UUIDs, id) }

var _ Prober = (*Sim)(nil)

// OpenSim creates the GPUs in spec: inline, such as "4x24GiB" or "2x24GiB,1x80GiB:A100", or a YAML
// file. The simulation starts now.
func OpenSim(spec string, now func() time.Duration) (*Sim, error) {
	sim, seed, private, err := loadSim(spec)
	if err != nil {
		return nil, err
	}
	s := &Sim{now: now, start: now(), spec: sim, private: private, me: host.Login(os.Getuid()), uids: map[string]int{"me": host.CurrentUID(), "?": -1}}
	set := fnv.New32a()
	_, _ = io.WriteString(set, seed)
	for i := range sim.GPUs {
		g := &sim.GPUs[i]
		for range *g.Count {
			n := len(s.devs)
			s.of = append(s.of, g)
			s.devs = append(s.devs, gpu.Device{
				Index: n, UUID: gpu.SimulatedUUID(set.Sum32(), n), Name: cmp.Or(g.Name, "Simulated GPU"), PCI: fmt.Sprintf("00000000:%02X:00.0", n),
				Total: gpu.Bytes(g.Memory), ComputeMode: computeModes[g.ComputeMode], NUMA: g.NUMA, Cores: g.Cores, Links: s.links(n),
			})
		}
		for _, l := range g.Load {
			if _, ok := s.uids[l.User]; !ok {
				s.uids[l.User] = 100000 + len(s.uids) - 2
			}
		}
	}
	return s, nil
}

// links returns the connections of a device to earlier ones, apart from NUMA nodes.
func (s *Sim) links(n int) map[gpu.UUID]gpu.Closeness {
	links := map[gpu.UUID]gpu.Closeness{}
	for i, d := range s.devs {
		switch a, b := s.of[i], s.of[n]; {
		case a.NVLink != "" && a.NVLink == b.NVLink:
			links[d.UUID] = gpu.NVLink
		case a.Switch != "" && a.Switch == b.Switch:
			links[d.UUID] = gpu.Switch
		}
	}
	return links
}

// Devices returns the simulated GPUs.
func (s *Sim) Devices() []gpu.Device { return slices.Clone(s.devs) }

// Version returns "simulated".
func (s *Sim) Version() string { return "simulated" }

// Private reports whether the devices belong to this run only, as with an inline spec: for other
// runs, the same UUIDs refer to different devices.
func (s *Sim) Private() bool { return s.private }

// Complete returns true, because a simulation hides nothing.
func (s *Sim) Complete() bool { return true }

// Close does nothing.
func (s *Sim) Close() error { return nil }

// Placed puts an attempt of this run on the devices of g. If it is already there,
// its memory now belongs to pid.
func (s *Sim) Placed(uniID string, pid int, g gpu.Grant) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for i := range s.placed {
		if p := &s.placed[i]; p.uniID == uniID && p.to < 0 {
			p.pid = pid
			return
		}
	}
	s.placed = append(s.placed, placement{uniID: uniID, pid: pid, uid: host.CurrentUID(), user: s.me, grant: g, from: s.now(), to: -1})
}

// Claimed puts the jobs of other runs on the devices that they claim.
func (s *Sim) Claimed(claims []gpu.Claim) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.claimed = nil
	for _, c := range claims {
		if !c.Gathering && c.To == "" {
			g := gpu.Grant{UUIDs: []gpu.UUID{c.UUID}, Memory: c.Memory}
			s.claimed = append(s.claimed, placement{pid: c.PID, uid: c.UID, user: c.User, grant: g, from: s.now() - time.Since(c.Since), to: -1})
		}
	}
}

// Removed records that an attempt has ended.
func (s *Sim) Removed(uniID string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := s.now()
	for i := range s.placed {
		if p := &s.placed[i]; p.uniID == uniID && p.to < 0 {
			p.to = now
		}
	}
	forget := max(time.Duration(s.spec.Jobs.Linger), sampleWindow*time.Second)
	s.placed = slices.DeleteFunc(s.placed, func(p placement) bool { return p.to >= 0 && now-p.to > forget })
}

// Read takes a reading.
func (s *Sim) Read(ctx context.Context, q Query) gpu.Observation {
	snap := s.snapshot(q)
	if d := time.Duration(s.spec.Latency.Processes); q.Processes && d > 0 {
		select {
		case <-ctx.Done():
		case <-time.After(d * time.Duration(len(snap.Readings))):
		}
	}
	return snap
}

func (s *Sim) snapshot(q Query) gpu.Observation {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := s.now()
	snap := gpu.Observation{At: now}
	for _, o := range s.spec.Outages {
		if o.has(now - s.start) {
			snap.Err = cmp.Or(o.Error, "no readings")
			return snap
		}
	}
	for i, d := range s.devs {
		if len(q.UUIDs) == 0 || slices.Contains(q.UUIDs, d.UUID) {
			snap.Readings = append(snap.Readings, s.read(i, now, q.Processes))
		}
	}
	return snap
}

// read takes a reading of one device.
func (s *Sim) read(i int, now time.Duration, full bool) gpu.Reading {
	d, g := s.devs[i], s.of[i]
	r := gpu.Reading{UUID: d.UUID, Total: d.Total, ComputeMode: d.ComputeMode}
	for _, f := range g.Fails {
		if f.has(now - s.start) {
			r = unread(cmp.Or(f.Error, "GPU is lost"))
			r.UUID = d.UUID
			return r
		}
	}
	procs, used := s.processes(i, now)
	r.Used = min(used, d.Total)
	r.Free = d.Total - r.Used
	if slices.Contains(g.Blind, "memory") {
		r.Free, r.Used = -1, -1
	}
	if !full {
		return r
	}
	if !slices.Contains(g.Blind, "processes") {
		r.Listed, r.Processes = true, procs
	}
	if !slices.Contains(g.Blind, "util") {
		r.Samples = s.samples(i, now)
	}
	return r
}

// processes returns the processes on device i, and the memory in use, including that of no visible
// process.
func (s *Sim) processes(i int, now time.Duration) (procs []gpu.Process, used gpu.Bytes) {
	for n, l := range s.of[i].Load {
		if !l.has(now - s.start) {
			continue
		}
		used = min(used+gpu.Bytes(l.Memory), 1<<61)
		if l.User != "" {
			pid := cmp.Or(l.PID, 1<<22+1+1000*i+n) // a PID that no process on this host can have
			procs = append(procs, gpu.Process{PID: pid, UID: s.uids[l.User], User: s.names(l.User), Command: l.Command, Memory: gpu.Bytes(l.Memory), Start: s.start + time.Duration(l.From)})
		}
	}
	for _, p := range slices.Concat(s.placed, s.claimed) {
		if !p.on(s.devs[i].UUID) {
			continue
		}
		used = min(used+s.taken(p, now), 1<<61)
		if p.lives(now) {
			procs = append(procs, gpu.Process{PID: p.pid, UID: p.uid, User: p.user, Command: "job", Memory: s.taken(p, now), Attempt: p.uniID})
		}
	}
	return procs, used
}

// names returns the login name of a user that the simulation file names.
func (s *Sim) names(user string) string {
	switch user {
	case "me":
		return s.me
	case "?":
		return ""
	}
	return user
}

// taken returns the memory that a job uses on each of its devices, including for a while after its
// end.
func (s *Sim) taken(p placement, now time.Duration) gpu.Bytes {
	all := cmp.Or(gpu.Bytes(s.spec.Jobs.Memory), p.grant.Memory)
	if !p.lives(now) {
		if now >= p.to+time.Duration(s.spec.Jobs.Linger) {
			return 0
		}
		now = p.to
	}
	if since, take := now-p.from, time.Duration(s.spec.Jobs.Take); since < take {
		return gpu.Bytes(float64(all) * float64(since) / float64(take))
	}
	return all
}

// samples returns the utilization of device i, with one sample per recent second.
func (s *Sim) samples(i int, now time.Duration) []gpu.Sample {
	samples := make([]gpu.Sample, 0, sampleWindow)
	for n := sampleWindow - 1; n >= 0; n-- {
		at := now - time.Duration(n)*time.Second
		samples = append(samples, gpu.Sample{At: at, Percent: s.util(i, at)})
	}
	return samples
}

// util returns the utilization of device i at a time. For times before the simulation started, it
// returns the utilization at its start.
func (s *Sim) util(i int, at time.Duration) int {
	percent := 0
	for _, l := range s.of[i].Load {
		if l.has(max(0, at-s.start)) {
			percent += l.Util
		}
	}
	for _, p := range slices.Concat(s.placed, s.claimed) {
		if p.lives(at) && p.on(s.devs[i].UUID) {
			percent += s.spec.Jobs.Util
		}
	}
	return min(100, percent)
}
