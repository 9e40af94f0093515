package gpu

import (
	"testing"
	"time"
)

// A user's own quarantine excludes a device until it expires. Another user's quarantine only makes
// the device the last choice, under every policy.
func TestOwnQuarantineExcludesTheDevice(t *testing.T) {
	boot, wall := time.Hour, time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	sick := func(uid int, id UUID) Quarantine {
		q := Quarantine{UUID: id, UID: uid, Why: "3 attempts died on it"}
		return q.Again(boot, wall)
	}
	for _, row := range []struct {
		name string
		sick []Quarantine
		now  time.Duration
		want string // the order in which a job would take the devices
	}{
		{"none", nil, boot, "ABC"},
		{"own", []Quarantine{sick(1000, "A")}, boot, "BC"},
		{"own, almost over", []Quarantine{sick(1000, "A")}, boot + time.Hour - 1, "BC"},
		{"own, over", []Quarantine{sick(1000, "A")}, boot + time.Hour, "ABC"},
		{"another user's", []Quarantine{sick(1001, "A")}, boot, "BCA"},
		{"another user's, over", []Quarantine{sick(1001, "A")}, boot + time.Hour, "ABC"},
		{"other users', of all devices", []Quarantine{sick(1001, "A"), sick(1002, "B"), sick(1003, "C")}, boot, "ABC"},
		{"own and another user's", []Quarantine{sick(1001, "B"), sick(1000, "A")}, boot, "CB"},
	} {
		for _, pick := range []Pick{FirstFit, MostFree, BestFit, LeastUtil, RoundRobin} {
			p := NewPool([]Device{{UUID: "A", Total: 9}, {UUID: "B", Total: 9}, {UUID: "C", Total: 9}}, Rules{UID: 1000, MinGPUs: -1, MaxGPUs: -1, Pick: pick})
			seen := Observation{At: row.now, Quarantines: row.sick}
			for _, id := range []UUID{"A", "B", "C"} {
				seen.Readings = append(seen.Readings, Reading{UUID: id, Total: 9, Free: 9, Used: 0, Listed: true})
			}
			p.Observe(seen)
			got := ""
			for {
				g, ok := p.Find(row.now, Request{Min: 1, Max: 1, Memory: 1, MaxUtil: 100}, nil)
				if !ok {
					break
				}
				p.Hold(string(g.UUIDs[0]), g)
				got += string(g.UUIDs[0])
			}
			if got != row.want {
				t.Errorf("%s, %s: took %s, want %s", row.name, pick, got, row.want)
			}
		}
	}
}

func TestQuarantineIsReportedAsReason(t *testing.T) {
	p := NewPool([]Device{{UUID: "A", Total: 9}}, Rules{UID: 1000, MinGPUs: -1, MaxGPUs: -1})
	p.Observe(Observation{At: 1, Readings: []Reading{{UUID: "A", Total: 9, Free: 9, Listed: true}}})
	late := time.Date(2026, 11, 28, 23, 30, 0, 0, time.Local)
	q, begun := p.Quarantine(1, late, "A", "it was lost", nil)
	if _, again := p.Quarantine(2, late, "A", "it was lost again", nil); !begun || again || q.UID != 1000 || q.Times != 1 || q.Ends != 1+time.Hour {
		t.Errorf("got %+v, begun %v, then %v; want one quarantine of an hour", q, begun, again)
	}
	for now, until := range map[time.Duration]string{1: "29 Nov 00:30", 1 + 45*time.Minute: "00:30"} {
		v := p.Admit(now, Request{Min: 1, Max: 1, MaxUtil: 100})[0]
		if want := "quarantined until " + until + ": it was lost (gpurun gpus --clear 0 ends the quarantine)"; v.OK || v.Never || v.Reason != want {
			t.Errorf("got %+v, want the reason %q", v, want)
		}
	}
	p.Observe(Observation{At: 2, Quarantines: []Quarantine{}}) // lifted
	if v := p.Admit(2, Request{Min: 1, Max: 1, MaxUtil: 100})[0]; !v.OK {
		t.Errorf("lifted, but got %+v", v)
	}
}

// Each quarantine of a device lasts twice as long as the previous one, up to a day.
func TestQuarantineDoubles(t *testing.T) {
	var q Quarantine
	for i, want := range []time.Duration{1, 2, 4, 8, 16, 24, 24} {
		q = q.Again(time.Minute, time.Now())
		if q.Ends != time.Minute+want*time.Hour || q.Times != i+1 {
			t.Errorf("quarantine %d: number %d, ends at %v, want %v", i+1, q.Times, q.Ends, time.Minute+want*time.Hour)
		}
	}
}

// A request that avoids some devices finds the others. If this run's own jobs hold those, it waits.
func TestAvoidedDevicesAreSkipped(t *testing.T) {
	p := NewPool([]Device{{UUID: "A", Total: 9}, {UUID: "B", Total: 9}}, Rules{UID: 1000, MinGPUs: -1, MaxGPUs: -1})
	p.Observe(Observation{At: 1, Readings: []Reading{{UUID: "A", Total: 9, Free: 9, Listed: true}, {UUID: "B", Total: 9, Free: 9, Listed: true}}})
	req := Request{Min: 1, Max: 1, MaxUtil: 100, Avoid: NamesOf([]string{"A"})}
	g, ok := p.Find(1, req, nil)
	if !ok || g.UUIDs[0] != "B" {
		t.Fatalf("got %v, %v, want B", g, ok)
	}
	p.Hold("x", g)
	if _, ok := p.Find(1, req, nil); ok {
		t.Error("Find returned a device to avoid")
	}
	if free, ours := p.Candidates(1, req, nil); len(free) != 0 || len(ours) != 1 || ours[0] != "B" {
		t.Errorf("free %v, ours %v, want only B, as ours", free, ours)
	}
}
