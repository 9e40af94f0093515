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

// A Sim is a set of simulated GPUs. By default, a job placed on a simulated GPU takes the memory that
// it was granted. The load of other users comes from the simulation file. Unlike other probers, a Sim
// is safe for concurrent use.
type Sim struct {
	mu      sync.Mutex
	now     func() time.Duration
	start   time.Duration
	spec    simulation
	private bool
	devs    []gpu.Device
	of      []*simGPU              // in the order of devs
	users   map[string]gpu.Process // UID and User, by the name in the simulation file
	placed  []placement            // in start order
	claimed []placement            // jobs of other runs
}

// A placement is a job on its devices.
type placement struct {
	gpu.Process
	grant gpu.Grant
	from  time.Duration
	to    time.Duration // -1 while it runs
}

func (p *placement) lives(at time.Duration) bool { return at >= p.from && (p.to < 0 || at < p.to) }

func (p *placement) on(id gpu.UUID) bool { return slices.Contains(p.grant.UUIDs, id) }

var _ Prober = (*Sim)(nil)

// OpenSim creates the GPUs in spec, which describes them inline ("4x24GiB", "2x24GiB,1x80GiB:A100")
// or is the path of a YAML file. The simulation starts now.
func OpenSim(spec string, now func() time.Duration) (*Sim, error) {
	sim, seed, private, err := loadSim(spec)
	if err != nil {
		return nil, err
	}
	s := &Sim{now: now, start: now(), spec: sim, private: private, users: map[string]gpu.Process{
		"me": {UID: host.CurrentUID(), User: host.Login(os.Getuid())}, "?": {UID: -1},
	}}
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
			if _, ok := s.users[l.User]; !ok {
				s.users[l.User] = gpu.Process{UID: 100000 + len(s.users) - 2, User: l.User}
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
		if p := &s.placed[i]; p.Attempt == uniID && p.to < 0 {
			p.PID = pid
			return
		}
	}
	p := s.users["me"]
	p.PID, p.Command, p.Attempt = pid, "job", uniID
	s.placed = append(s.placed, placement{Process: p, grant: g, from: s.now(), to: -1})
}

// Claimed puts the jobs of other runs on the devices that they claim.
func (s *Sim) Claimed(claims []gpu.Claim) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.claimed = nil
	for _, c := range claims {
		if !c.Gathering && c.To == "" {
			p := gpu.Process{PID: c.PID, UID: c.UID, User: c.User, Command: "job"}
			g := gpu.Grant{UUIDs: []gpu.UUID{c.UUID}, Memory: c.Memory}
			s.claimed = append(s.claimed, placement{Process: p, grant: g, from: s.now() - time.Since(c.Since), to: -1})
		}
	}
}

// Removed records that an attempt has ended.
func (s *Sim) Removed(uniID string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := s.now()
	for i := range s.placed {
		if p := &s.placed[i]; p.Attempt == uniID && p.to < 0 {
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

// processes returns the processes on device i, and the memory in use, including memory of no visible
// process.
func (s *Sim) processes(i int, now time.Duration) (procs []gpu.Process, used gpu.Bytes) {
	for n, l := range s.of[i].Load {
		if !l.has(now - s.start) {
			continue
		}
		used = min(used+gpu.Bytes(l.Memory), 1<<61)
		if l.User != "" {
			p := s.users[l.User]
			p.PID = cmp.Or(l.PID, 1<<22+1+1000*i+n) // a PID that no process on this host can have
			p.Command, p.Memory, p.Start = l.Command, gpu.Bytes(l.Memory), s.start+time.Duration(l.From)
			procs = append(procs, p)
		}
	}
	for _, p := range slices.Concat(s.placed, s.claimed) {
		if !p.on(s.devs[i].UUID) {
			continue
		}
		p.Memory = s.taken(p, now)
		used = min(used+p.Memory, 1<<61)
		if p.lives(now) {
			procs = append(procs, p.Process)
		}
	}
	return procs, used
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
