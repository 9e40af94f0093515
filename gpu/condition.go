package gpu

import (
	"fmt"
	"slices"
	"time"
)

// activity tracks how busy a device has been in the last minute.
type activity struct {
	samples []Sample
	since   time.Duration     // start of the uninterrupted samples
	watched time.Duration     // duration of the uninterrupted samples
	peaks   [len(windows)]int // highest sample in each window; -1 if unknown
	idle    Idle              // has no UUID before the first sample
}

// windows are the periods over which utilization is judged: a short one, and a longer one if
// strangers are on the device.
var windows = [2]time.Duration{3 * time.Second, 60 * time.Second}

// window returns the index of the window that applies to d.
func (d *device) window() int {
	if d.hasStrangers() {
		return 1
	}
	return 0
}

// watch adds samples, and updates peaks and watched as of now.
func (w *activity) watch(id UUID, now time.Duration, samples []Sample, gap time.Duration) {
	for _, s := range samples {
		last, any := w.last()
		if any && s.At <= last {
			continue
		}
		if !any || s.At-last > gap {
			w.since = s.At
		}
		w.samples = append(w.samples, s)
		w.rest(id, s)
	}
	last, any := w.last()
	for len(w.samples) > 0 && w.samples[0].At < now-windows[1] {
		w.samples = w.samples[1:]
	}
	w.peaks, w.watched = [2]int{-1, -1}, 0
	if !any || now-last > gap {
		return // the newest sample is too old
	}
	w.watched = now - w.since
	for i, window := range windows {
		for k, s := range w.samples { // the newest sample always counts
			if s.At >= now-window || k == len(w.samples)-1 {
				w.peaks[i] = max(w.peaks[i], s.Percent)
			}
		}
	}
}

// rest updates the idle time of the device with a sample.
func (w *activity) rest(id UUID, s Sample) {
	seen := Idle{UUID: id, Since: s.At, Until: s.At}
	if s.Percent > 0 {
		seen.Busy = s.At
	}
	if w.idle.UUID != "" {
		seen = seen.with(w.idle)
	}
	w.idle = seen
}

// last returns the time of the newest sample.
func (w *activity) last() (time.Duration, bool) {
	if len(w.samples) == 0 {
		return 0, false
	}
	return w.samples[len(w.samples)-1].At, true
}

// A DeviceView is the state of one device, for display.
type DeviceView struct {
	Device
	Free, Used  Bytes // -1 if unknown
	Util        int   // percent, the newest sample; -1 if unknown
	Listed      bool  // whether Processes were read
	Processes   []Process
	Claims      []Claim // of other runs
	Quarantines []Quarantine
}

// Views returns the state of every device, in PCI order.
func (p *Pool) Views(now time.Duration) []DeviceView {
	all := make([]DeviceView, len(p.devs))
	for i, d := range p.devs {
		all[i] = DeviceView{Device: d.Device, Free: d.free, Used: d.used, Util: -1, Listed: d.listed, Processes: slices.Clone(d.procs), Claims: slices.Concat(d.claims, d.gathers)}
		if d.err != "" {
			all[i].Free, all[i].Used = -1, -1
		} else if n := len(d.samples); n > 0 {
			all[i].Util = d.samples[n-1].Percent
		}
		for _, q := range p.quarantines {
			if q.UUID == d.UUID && q.Ends > now {
				all[i].Quarantines = append(all[i].Quarantines, q)
			}
		}
	}
	return all
}

// A Quarantine keeps a user's jobs off a device that one of that user's runs found faulty. For
// other users it is a hint: their jobs use the device last.
type Quarantine struct {
	UUID     UUID          `json:"uuid"`
	Index    int           `json:"index"`
	UID      int           `json:"uid"` // the user
	User     string        `json:"-"`   // login name of UID, for messages
	Since    time.Time     `json:"since"`
	Until    time.Time     `json:"until"`             // in wall-clock time, for display
	Ends     time.Duration `json:"until_boottime_ns"` // CLOCK_BOOTTIME at which it ends
	Times    int           `json:"times"`             // how often this user's runs have quarantined the device since boot
	Why      string        `json:"why"`
	Evidence []string      `json:"evidence,omitempty"` // the attempts that died there, one sentence each
}

const (
	firstQuarantine   = time.Hour // doubles each time
	LongestQuarantine = 24 * time.Hour
)

// Again returns the quarantine that follows q and begins now. The first quarantine lasts an hour,
// each later one twice as long as the previous one, up to LongestQuarantine.
func (q Quarantine) Again(boot time.Duration, wall time.Time) Quarantine {
	lasts := min(firstQuarantine<<min(q.Times, 10), LongestQuarantine)
	q.Times, q.Since, q.Until, q.Ends = q.Times+1, wall, wall.Add(lasts), boot+lasts
	return q
}

// words returns "quarantined until 15:04: WHY (gpurun gpus --clear 3 ends the quarantine)".
func (q *Quarantine) words(now time.Duration) string {
	until := Clock(q.Until, q.Until.Add(now-q.Ends))
	return fmt.Sprintf("quarantined until %s: %s (gpurun gpus --clear %d ends the quarantine)", until, q.Why, q.Index)
}

// Health is a device's own report of faults.
type Health struct {
	Uncorrected int  // uncorrectable ECC errors since the driver was loaded; -1 if unknown, as on consumer cards
	Remap       bool // a memory row will be replaced when the GPU is reset
	Xid         int  // number of a critical error since the previous reading, if it is a signature (see xids); else 0
}

// Quarantine quarantines a device from now on. begun is false if the device is already quarantined,
// has never answered or is not managed.
func (p *Pool) Quarantine(boot time.Duration, wall time.Time, id UUID, why string, evidence []string) (q Quarantine, begun bool) {
	d := p.device(id)
	q, inForce := p.Quarantined(boot, id)
	if d == nil || !d.managed || d.Silent || inForce {
		return q, false
	}
	q.UUID, q.Index, q.UID, q.Why, q.Evidence = id, d.Index, p.rules.UID, why, evidence
	q = q.Again(boot, wall)
	p.quarantines = append(slices.Clone(p.quarantines), q)
	p.noteQuarantines(boot)
	return q, true
}

// Quarantined returns this user's quarantine of a device, and whether it is in force. It also
// returns an expired quarantine, because Times still counts.
func (p *Pool) Quarantined(now time.Duration, id UUID) (q Quarantine, inForce bool) {
	for _, some := range p.quarantines {
		if some.UUID == id && some.UID == p.rules.UID && some.Times >= q.Times {
			q = some
		}
	}
	return q, q.Ends > now
}

// noteQuarantines updates which devices are quarantined now, and by which users.
func (p *Pool) noteQuarantines(now time.Duration) {
	for _, d := range p.devs {
		d.quarantine = nil
		if q, inForce := p.Quarantined(now, d.UUID); inForce {
			d.quarantine = &q
		}
		d.suspect = slices.ContainsFunc(p.quarantines, func(q Quarantine) bool {
			return q.UUID == d.UUID && q.UID != p.rules.UID && q.Ends > now
		})
	}
}

// Sick returns the devices that this user has quarantined.
func (p *Pool) Sick() []UUID {
	return uuids(p.filter(func(d *device) bool { return d.quarantine != nil }))
}
