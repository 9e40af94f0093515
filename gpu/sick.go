package gpu

import (
	"fmt"
	"slices"
	"time"
)

// A Quarantine keeps a user's jobs off a device that one of that user's runs found sick.
// For everybody else it is a hint: their jobs take that device last.
type Quarantine struct {
	UUID     UUID
	Index    int
	UID      int    // whose it is
	User     string // login name of UID, for messages
	Since    time.Time
	Until    time.Time     // for people
	Ends     time.Duration // CLOCK_BOOTTIME at which it ends
	Times    int           // how often this user's runs have quarantined the device since the boot
	Why      string
	Evidence []string // the attempts that died there, one sentence each
}

const (
	firstQuarantine   = time.Hour // doubles each time
	LongestQuarantine = 24 * time.Hour
)

// Again returns a quarantine that begins now. It lasts longer than q, the one before, if any.
func (q Quarantine) Again(boot time.Duration, wall time.Time) Quarantine {
	lasts := min(firstQuarantine<<min(q.Times, 10), LongestQuarantine)
	q.Times, q.Since, q.Until, q.Ends = q.Times+1, wall, wall.Add(lasts), boot+lasts
	return q
}

// words returns "quarantined until 15:04: WHY (gpurun gpus --clear 3 lifts that)".
func (q *Quarantine) words() string {
	return fmt.Sprintf("quarantined until %s: %s (gpurun gpus --clear %d lifts that)", q.Until.Local().Format("15:04"), q.Why, q.Index)
}

// Health is what a device reports of its own faults.
type Health struct {
	Uncorrected int  // uncorrectable ECC errors since the driver was loaded; -1 if unknown, as on consumer cards
	Remap       bool // a row of its memory is to be replaced, which happens when the GPU is reset
	Xid         int  // the latest critical error since the last reading that blames the device; 0 for none
}

// Quarantine keeps a device out from now on. It returns false if it already is.
func (p *Pool) Quarantine(boot time.Duration, wall time.Time, id UUID, why string, evidence []string) (q Quarantine, begun bool) {
	d := p.device(id)
	q, inForce := p.Quarantined(boot, id)
	if d == nil || !d.managed || d.Silent || inForce {
		return q, false
	}
	q.UUID, q.Index, q.UID, q.Why, q.Evidence = id, d.Index, p.rules.UID, why, evidence
	q = q.Again(boot, wall)
	p.quarantines = append(slices.Clone(p.quarantines), q)
	p.ail(boot)
	return q, true
}

// Quarantined returns this user's quarantine of a device, and whether it is in force. One
// that is over tells how often there has been one.
func (p *Pool) Quarantined(now time.Duration, id UUID) (q Quarantine, inForce bool) {
	for _, some := range p.quarantines {
		if some.UUID == id && some.UID == p.rules.UID && some.Times >= q.Times {
			q = some
		}
	}
	return q, q.Ends > now
}

// ail records which devices are quarantined now, and by whom.
func (p *Pool) ail(now time.Duration) {
	for i := range p.devs {
		d := &p.devs[i]
		d.sick = nil
		if q, inForce := p.Quarantined(now, d.UUID); inForce {
			d.sick = &q
		}
		d.suspect = slices.ContainsFunc(p.quarantines, func(q Quarantine) bool {
			return q.UUID == d.UUID && q.UID != p.rules.UID && q.Ends > now
		})
	}
}
