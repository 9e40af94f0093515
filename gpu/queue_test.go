package gpu

import (
	"strings"
	"testing"
	"time"
)

// The queue lists runs in the order in which they are offered devices, each with the reasons that
// it would report itself.
func TestQueueIsInOrderOfOffers(t *testing.T) {
	p := host(3)
	p.Turns.own.Requests = nil
	p.rules.Host = NoHostRules()
	p.rules.Host.At = noon
	p.hostRead = sec(2)
	see(p, sec(2), func(i int, r *Reading) {
		if i == 2 {
			with(r, Process{PID: 7, UID: carol, User: "carol", Command: "jupyter", Memory: 1 * GiB})
		}
	})
	until := func(i int, run string, uid int, ends time.Duration) Claim {
		c := held(p, i, run, uid)
		if ends != 0 {
			c.Ends = noon.Add(ends)
		}
		return c
	}
	p.observeClaims(sec(2), []Claim{until(0, "bob", bob, time.Hour), until(1, "dave", dave, 2*time.Hour)}, nil)
	bobs, carols, daves := wish(p, "bob", bob, 1, 1), wish(p, "carol", carol, 1, 2), wish(p, "dave", dave, 1, 1)
	for _, w := range []*Wish{&bobs, &carols, &daves} {
		w.Requests[0].MaxUtil = 100
	}
	daves.Since = noon.Add(-time.Minute)
	bobs.Requests[0].Others = OthersAvoid
	p.Turns.others = []Wish{bobs, daves, carols}

	type place struct {
		run   string
		holds float64
		start time.Duration // after noon; -1 if unknown
		why   string        // of the last device
	}
	check := func(what string, want ...place) {
		t.Helper()
		got := p.Turns.Queue(sec(2))
		if len(got) != len(want) {
			t.Fatalf("%s: %d places, want %d", what, len(got), len(want))
		}
		for i, g := range got {
			w, start := want[i], time.Duration(-1)
			if !g.Start.IsZero() {
				start = g.Start.Sub(noon)
			}
			if why := g.Verdicts[2].Reason; g.Run != w.run || g.Holds != w.holds || start != w.start || !strings.HasPrefix(why, w.why) || (why == "") != (w.why == "") {
				t.Errorf("%s: place %d: got %s holding %v, start %v, %q; want %+v", what, i, g.Run, g.Holds, start, why, w)
			}
		}
	}
	// Carol's own program keeps her job off its device, and counts as part of her load.
	mine := "carol's jupyter 7"
	check("ends known",
		place{"carol", 1.0 / 24, 2 * time.Hour, mine},
		place{"dave", 1, 0, ""},
		place{"bob", 1, -1, mine}) // no device is left for bob, who avoids other users
	p.observeClaims(sec(2), []Claim{until(0, "bob", bob, time.Hour), until(1, "dave", dave, 0)}, nil)
	check("one end unknown",
		place{"carol", 1.0 / 24, -1, mine},
		place{"dave", 1, 0, ""},
		place{"bob", 1, time.Hour, mine})
	p.observeClaims(sec(2), []Claim{until(0, "bob", bob, time.Hour), until(1, "dave", dave, -time.Second)}, nil)
	check("one end overdue",
		place{"carol", 1.0 / 24, -1, mine},
		place{"dave", 1, 0, ""},
		place{"bob", 1, time.Hour, mine})
	p.Turns.others[1].Requests[0].Room = 0
	check("no room", place{"carol", 1.0 / 24, -1, mine}, place{"dave", 1, -1, ""}, place{"bob", 1, time.Hour, mine})
	if c := p.devs[2].foreign; c == nil || c.UID != carol {
		t.Errorf("Queue changed this run's view of the device: %+v", p.devs[2].memoryTally)
	}
}
