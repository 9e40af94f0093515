package gpu

import "time"

// A Level describes how full and how busy a device is, and who uses it.
type Level struct {
	UUID   UUID
	Index  int
	Name   string
	Total  Bytes // 0 if unknown
	Used   Bytes // -1 if unknown, like Ours and Util
	Ours   Bytes // the part of Used that is due to this run's jobs
	Util   int   // percent
	Jobs   int   // this run's jobs on it
	Others bool  // anything besides this run's jobs is on it
	Open   bool  // it is managed and unused, and no other run claims or gathers it
}

// Levels returns the current levels of all devices, in PCI order.
func (p *Pool) Levels(now time.Duration) []Level {
	all := make([]Level, len(p.devs))
	for i, d := range p.devs {
		all[i] = d.level(now, p.gap())
	}
	return all
}

// level returns the device's level, leaving out values older than gap.
func (d *device) level(now, gap time.Duration) Level {
	l := Level{UUID: d.UUID, Index: d.Index, Name: d.Name, Total: d.Total, Used: -1, Ours: -1, Util: -1, Jobs: len(d.holds)}
	if !d.read || d.err != "" || d.noReading != "" || d.awaited || now-d.at > gap {
		return l
	}
	l.Others = d.foreign != nil || d.own != nil || d.hidden > 0 || len(d.claims) > 0
	l.Open = d.managed && d.barred == "" && !l.Others && !d.unyielded && len(d.holds)+len(d.gathers) == 0
	if n := len(d.samples); n > 0 && now-d.samples[n-1].At <= gap {
		l.Util = d.samples[n-1].Percent
	}
	if l.Used = d.used; !d.listed || l.Used < 0 {
		return l
	}
	ours := Bytes(0)
	for _, h := range d.holds {
		taken, known := d.taken(h.attempt)
		if !known {
			return l
		}
		ours += taken
	}
	l.Ours = min(ours, l.Used)
	return l
}
