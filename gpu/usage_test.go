package gpu

import (
	"testing"
	"time"
)

// Use counts for the user of the run, claims of other users for those users. Background claims and
// offers count for no user.
func TestUseCountsForItsUser(t *testing.T) {
	p := host(4)
	p.Recall([]Use{{me, 100}, {bob, 7200}}, nil)
	p.AdvanceTo(sec(1))
	holdAll(p, "a", 0)
	offer, behind := held(p, 2, "bob", bob), held(p, 3, "dave", dave)
	offer.To, behind.Background = "x", true
	mine := held(p, 1, "mine", me)
	p.observeClaims(sec(1), []Claim{held(p, 1, "carol", carol), mine, offer, behind}, nil)
	p.AdvanceTo(sec(11))
	first := p.Spent()
	if first.Passed != 10*time.Second || first.Own != 10 || len(first.Others) != 1 || first.Others[0] != (Use{carol, 10}) {
		t.Errorf("got %+v, want 10 s for this run and 10 s for carol", first)
	}
	if got := p.Used(me); got < 119 || got > 120 { // including the use of this user's other run
		t.Errorf("used %v GPU seconds, want 120", got)
	}
	p.AdvanceTo(sec(11) + 24*time.Hour)
	if got := p.Used(bob); got < 3599 || got > 3601 {
		t.Errorf("after a day bob's 7200 GPU seconds count as %v, want 3600", got)
	}
	if s := p.Spent().Since(first); s.Passed != 24*time.Hour || s.Own != 86400 || s.Others[0].Seconds != 86400 {
		t.Errorf("since the first Spent: %+v, want a day each", s)
	}
}

// A device is idle since its last sample above 0%, or since the start of the samples without a gap.
// Records of other users extend that time.
func TestIdleSinceLastBusySample(t *testing.T) {
	const m = time.Minute
	tests := []struct {
		name    string
		known   []Idle
		samples []Sample
		want    time.Duration // the start; -1 if not idle
	}{
		{"one sample", nil, []Sample{{100 * m, 0}}, 100 * m},
		{"busy", nil, []Sample{{90 * m, 0}, {100 * m, 1}}, -1},
		{"busy before", nil, []Sample{{80 * m, 0}, {90 * m, 5}, {100 * m, 0}}, 90 * m},
		{"every ten minutes", nil, []Sample{{80 * m, 0}, {90 * m, 0}, {100 * m, 0}}, 80 * m},
		{"a gap", nil, []Sample{{80 * m, 0}, {96 * m, 0}, {100 * m, 0}}, 96 * m},
		{"another user watched longer", []Idle{{Since: 5 * m, Until: 90 * m}}, []Sample{{100 * m, 0}}, 5 * m},
		{"another user's record ended too long ago", []Idle{{Since: 5 * m, Until: 80 * m}}, []Sample{{100 * m, 0}}, 100 * m},
		{"another user saw load", []Idle{{Since: 5 * m, Until: 90 * m}, {Since: 92 * m, Until: 92 * m, Busy: 92 * m}}, []Sample{{100 * m, 0}}, 92 * m},
		{"the same in the other order", []Idle{{Since: 92 * m, Until: 92 * m, Busy: 92 * m}, {Since: 5 * m, Until: 90 * m}}, []Sample{{100 * m, 0}}, 92 * m},
		{"idle before, busy now", []Idle{{Since: 5 * m, Until: 99 * m}}, []Sample{{100 * m, 50}}, -1},
		{"no samples", []Idle{{Since: 5 * m, Until: 99 * m}}, nil, -1},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			p := NewPool(some(1, 24*GiB), anyone())
			for _, k := range tt.known {
				k.UUID = "GPU-0"
				p.Recall(nil, []Idle{k})
			}
			see := func(at time.Duration, samples []Sample) {
				r := idle(p.devs[0].Device, at)
				r.Samples = samples
				p.Observe(Observation{At: at, Readings: []Reading{r}})
			}
			for _, s := range tt.samples {
				see(s.At, []Sample{s})
			}
			if tt.samples == nil {
				see(120*m, nil)
			}
			since, ok := p.IdleSince("GPU-0")
			if !ok {
				since = -1
			}
			if since != tt.want {
				t.Errorf("idle since %v, want %v", since, tt.want)
			}
		})
	}
}

// On a shared device, a user holds the part that the job occupies, whatever it was granted.
func TestSharedDeviceCountsByOccupiedPart(t *testing.T) {
	for _, tt := range []struct {
		name   string
		claim  Claim
		busy   []int
		beside *hold
		want   float64
	}{
		{"not shared", Claim{}, nil, nil, 1},
		{"promised memory", Claim{Share: true, Memory: 12 * GiB}, nil, nil, 0.5},
		{"allocated memory", Claim{Share: true, Memory: MiB, Taken: 18 * GiB}, nil, nil, 0.75},
		{"utilization a while ago", Claim{Share: true, Memory: 6 * GiB}, []int{80, 0}, nil, 0.8},
		{"utilization of two jobs", Claim{Share: true, Memory: 6 * GiB}, []int{80}, &hold{Grant: Grant{Share: true}}, 0.4},
		{"own slots", Claim{Share: true, Memory: MiB, Slots: 2}, nil, nil, 0.5},
		{"another job's slots", Claim{Share: true, Memory: MiB, Slots: 5}, nil, &hold{Grant: Grant{Share: true, Slots: 4}}, 0.25},
	} {
		d := &device{Device: Device{Total: 24 * GiB}, claims: []Claim{tt.claim}}
		if tt.beside != nil {
			d.holds = []hold{*tt.beside}
		}
		for _, percent := range tt.busy {
			d.samples = append(d.samples, Sample{Percent: percent})
		}
		if got := d.claimPart(&d.claims[0]); got != tt.want {
			t.Errorf("%s: %v, want %v", tt.name, got, tt.want)
		}
	}
}
