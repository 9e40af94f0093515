package gpu

import (
	"strings"
	"testing"
	"time"
)

// collects returns a run's gathering claim on the i-th device.
func collects(p *Pool, i int, run string, uid int, ends time.Time) Claim {
	c := held(p, i, run, uid)
	c.Attempt += " gathers"
	c.Gathering, c.Ends = true, ends
	return c
}

// gathers returns the wish of a run that gathers for a job on k devices.
func gathers(p *Pool, run string, uid, k int) Wish {
	w := wish(p, run, uid, 1, k)
	w.Gathers = true
	return w
}

// labels returns the names of devices.
func labels(p *Pool, ids []UUID) string {
	var s []string
	for _, id := range ids {
		s = append(s, p.Label(id))
	}
	return strings.Join(s, " ")
}

// waits returns a host with n devices, on which this run's job has waited for k of them.
func waits(n, k int) *Pool {
	p := host(n)
	p.rules.Host.At = noon
	p.AdvanceTo(sec(1))
	p.Turns.own.Requests = nil
	p.Turns.SetWish(wish(p, "me", me, 1, k))
	return p
}

func TestGatherTakesFreeDevicesWhenPatienceRunsOut(t *testing.T) {
	shares := func(c Claim) Claim { c.Share = true; return c }
	tests := []struct {
		name   string
		k      int // devices needed by the job; 3 if 0
		claims func(p *Pool) []Claim
		wishes func(p *Pool) []Wish
		do     func(p *Pool)
		at     float64 // seconds, 602 if 0; patience runs out after 601
		want   string
	}{
		{name: "too early", at: 600},
		{name: "all free devices", want: "2 3"},
		{name: "no more than needed", k: 2, want: "1 2", claims: func(p *Pool) []Claim { return []Claim{held(p, 0, "bob", bob)} }},
		{name: "gathered devices first", k: 2, want: "3 1", claims: func(p *Pool) []Claim { return []Claim{held(p, 0, "bob", bob)} },
			do: func(p *Pool) { p.Gathered([]UUID{"GPU-3"}) }},
		{name: "devices of jobs that share, last", want: "2 3 0", claims: func(p *Pool) []Claim { return []Claim{shares(held(p, 0, "bob", bob)), held(p, 1, "bob", bob)} }},
		{name: "a whole device, all shared or held", k: 1, want: "0", claims: func(p *Pool) []Claim {
			return []Claim{shares(held(p, 0, "bob", bob)), shares(held(p, 1, "bob", bob)), held(p, 2, "bob", bob), held(p, 3, "bob", bob)}
		}},
		{name: "more than gpurun could ever free", k: 4, do: func(p *Pool) {
			see(p, sec(602), func(i int, r *Reading) {
				if i == 3 {
					with(r, bobs(20*GiB))
				}
			})
		}},
		{name: "more than are open", k: 4, do: func(p *Pool) {
			night, _ := ParseHours("20:00-08:00")
			p.rules.Host.Hours = []DeviceHours{{Devices: []string{"3"}, Hours: night}}
		}},
		{name: "no other run holds devices", claims: func(*Pool) []Claim { return []Claim{} }},
		{name: "not first in line", wishes: func(p *Pool) []Wish { return []Wish{wish(p, "carol", carol, 9, 1)} }},
		{name: "first run in line can never start", want: "2 3", wishes: func(p *Pool) []Wish { return []Wish{wish(p, "carol", carol, 1, 9)} }},
		{name: "first run in line is in the background", want: "2 3", wishes: func(p *Pool) []Wish {
			w := wish(p, "carol", carol, 9, 1)
			w.Background = true
			return []Wish{w}
		}},
		{name: "ahead of another gathering run", want: "2 3",
			claims: func(p *Pool) []Claim {
				return []Claim{held(p, 0, "bob", bob), held(p, 1, "dave", dave), collects(p, 2, "dave", dave, time.Time{})}
			},
			wishes: func(p *Pool) []Wish { return []Wish{gathers(p, "dave", dave, 3)} }},
		{name: "behind another gathering run", claims: func(p *Pool) []Claim {
			return []Claim{held(p, 0, "bob", bob), held(p, 1, "bob", bob), collects(p, 2, "carol", carol, time.Time{})}
		}, wishes: func(p *Pool) []Wish { return []Wish{gathers(p, "carol", carol, 3)} }},
		{name: "negative priority has no patience", at: 2, want: "2 3", do: func(p *Pool) { p.rules.Host.Users = weighing(map[int]int{me: -1}).Users }},
		{name: "in the background", do: func(p *Pool) { p.Turns.own.Background = true }},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			k := tt.k
			if k == 0 {
				k = 3
			}
			p := waits(4, k)
			claims := []Claim{held(p, 0, "bob", bob), held(p, 1, "bob", bob)}
			if tt.claims != nil {
				claims = tt.claims(p)
			}
			var wishes []Wish
			if tt.wishes != nil {
				wishes = tt.wishes(p)
			}
			p.usage.add(me, 1) // the others go first if they hold equally many
			p.ObserveOthers(sec(2), claims, wishes)
			at := tt.at
			if at == 0 {
				at = 602
			}
			see(p, sec(at), nil)
			if tt.do != nil {
				tt.do(p)
			}
			if got := labels(p, p.Turns.Gather(sec(at), *p.Turns.own.Requests[0].req, nil).IDs); got != tt.want {
				t.Errorf("gathers %q, want %q", got, tt.want)
			}
		})
	}
}

// A run gathers for half an hour, or for as long as it has waited if that is longer. Then it waits
// again.
func TestGatheringAndWaitingAlternate(t *testing.T) {
	p := waits(4, 3)
	p.ObserveOthers(sec(2), []Claim{held(p, 0, "bob", bob), held(p, 1, "bob", bob)}, nil)
	for _, tt := range []struct {
		at, next float64
		want     bool
	}{{9, 10, false}, {10, 40, true}, {39, 40, true}, {40, 70, false}, {69, 70, false}, {70, 140, true}, {139, 140, true}, {140, 210, false}} {
		now := sec(1 + 60*tt.at)
		see(p, now, nil)
		if g := p.Turns.Gather(now, *p.Turns.own.Requests[0].req, nil); g.On != tt.want || g.Next != sec(1+60*tt.next) {
			t.Errorf("after %v min: gathering %v until %v, want %v until %v", tt.at, g.On, g.Next, tt.want, sec(1+60*tt.next))
		}
	}
}

// If another run moves ahead, this run continues gathering, unless the other run gathers, too.
func TestEarlierWishDoesNotEndGathering(t *testing.T) {
	p := waits(4, 3)
	claims := []Claim{held(p, 0, "bob", bob), held(p, 1, "bob", bob)}
	on := func(now time.Duration, wishes ...Wish) bool {
		p.ObserveOthers(now, claims, wishes)
		see(p, now, nil)
		g := p.Turns.Gather(now, *p.Turns.own.Requests[0].req, nil)
		p.Turns.own.Gathers = g.On
		return g.On
	}
	p.usage.add(me, 1)
	if !on(sec(700)) || !on(sec(701), wish(p, "carol", carol, 1, 1)) {
		t.Error("a run that moved ahead ends gathering")
	}
	if on(sec(702), gathers(p, "carol", carol, 2)) {
		t.Error("a gathering run that moved ahead does not end gathering")
	}
	if !on(sec(703)) {
		t.Error("gathering does not resume")
	}
}

// Devices gathered by another run admit only jobs that end in time. This lasts for the host's
// gather time, or for as long as that run had waited if that is longer.
func TestGatheredDevicesAdmitOnlyJobsThatEndInTime(t *testing.T) {
	p := host(2)
	p.rules.Host.At, p.rules.Host.Gather = noon, time.Minute
	w := gathers(p, "bob", bob, 2)
	claims := []Claim{held(p, 1, "carol", carol), collects(p, 0, "bob", bob, noon.Add(time.Hour))}
	admits := func(now time.Duration, lasts time.Duration) bool {
		see(p, now, nil)
		req := one(8 * GiB)
		req.Lasts = lasts
		_, ok := p.Find(now, req, nil)
		return ok
	}
	p.ObserveOthers(sec(10), claims, []Wish{wish(p, "bob", bob, 1, 2)})
	if !admits(sec(10), 0) {
		t.Error("a gathering claim counts although its run does not gather")
	}
	p.ObserveOthers(sec(100), claims, []Wish{w})
	if admits(sec(100), 0) || admits(sec(100), time.Hour) || !admits(sec(100), 50*time.Minute) {
		t.Errorf("jobs of unknown length, 1 h, 50 min: admitted %v %v %v, want only the last", admits(sec(100), 0), admits(sec(100), time.Hour), admits(sec(100), 50*time.Minute))
	}
	if why := p.Admit(sec(100), one(GiB))[0].Reason; why != "kept for bob, who is gathering GPUs for job" {
		t.Errorf("reason: %q", why)
	}
	for _, pl := range p.Turns.Queue(sec(100)) {
		if pl.Run == "bob" && !pl.Verdicts[0].OK {
			t.Errorf("bob is refused his own gathered device: %s", pl.Verdicts[0].Reason)
		}
	}
	g := Grant{UUIDs: []UUID{"GPU-0"}, Memory: GiB}
	p.Hold("a", g)
	if why := p.Conflict(sec(100), g, claims); why == "" {
		t.Error("no conflict with the gathering claim")
	}
	p.Undo("a")
	p.Gathered([]UUID{"GPU-0"})
	if !admits(sec(100), 0) {
		t.Error("two runs that gather a device keep each other off it")
	}
	p.Gathered(nil)
	p.ObserveOthers(sec(189), claims, []Wish{w}) // bob's run had waited for 90 s
	if admits(sec(189), 0) {
		t.Error("the gathering claim no longer counts after 89 s")
	}
	p.ObserveOthers(sec(190), claims, []Wish{w})
	if !admits(sec(190), 0) {
		t.Error("the gathering claim still counts after 90 s")
	}
	w.Since = noon.Add(time.Minute) // a new wish
	p.ObserveOthers(sec(195), claims, nil)
	if p.ObserveOthers(sec(196), claims, []Wish{w}); !admits(sec(196), 0) {
		t.Error("a new wish ended the pause")
	}
	p.ObserveOthers(sec(200), append(claims, held(p, 0, "bob", bob)), []Wish{w})
	if p.ObserveOthers(sec(201), claims, []Wish{w}); admits(sec(201), 0) {
		t.Error("the pause continues although bob has claimed a device")
	}
}

// A run that gathers more devices than exist, or that has gathered enough and does not start, must
// not block other jobs.
func TestUselessGatheringBlocksNoJob(t *testing.T) {
	p := host(2)
	claims := []Claim{collects(p, 0, "bob", bob, time.Time{}), collects(p, 1, "bob", bob, time.Time{})}
	see := func(now float64, w Wish) bool {
		p.ObserveOthers(sec(now), claims, []Wish{w})
		see(p, sec(now), nil)
		_, ok := p.Find(sec(now), one(GiB), nil)
		return ok
	}
	if !see(9, gathers(p, "bob", bob, 3)) {
		t.Error("gathering 3 GPUs on a host with 2 blocks a job")
	}
	w := gathers(p, "bob", bob, 2)
	if see(10, w) || see(14, w) {
		t.Error("gathering ended too early")
	}
	if !see(15, w) || !p.Turns.isSkipped(sec(16), bob) {
		t.Error("a run that does not start is not skipped")
	}
}

// A freed device goes to the gathering run, and no other run gets gathered devices.
func TestFreedDeviceGoesToTheGatherer(t *testing.T) {
	p := waits(4, 1)
	holdAll(p, "a", 0)
	holdAll(p, "b", 1)
	p.usage.add(me, 1)
	claims := []Claim{held(p, 2, "carol", carol), held(p, 3, "carol", carol)}
	w := wish(p, "bob", bob, 1, 3)
	p.ObserveOthers(sec(2), claims, []Wish{w})
	leave(p, sec(3), "a")
	if got := next(p, sec(3), 0); got != "me" {
		t.Errorf("GPU 0 goes to %q, want me", got)
	}
	w.Gathers = true
	p.ObserveOthers(sec(4), claims, []Wish{w})
	if got := next(p, sec(4), 0); got != "bob" {
		t.Errorf("GPU 0 goes to %q, want bob, who gathers", got)
	}
	p.Yield([]UUID{"GPU-0"})
	claims = append(claims, collects(p, 0, "bob", bob, time.Time{}))
	p.ObserveOthers(sec(5), claims, []Wish{w, wish(p, "dave", dave, 1, 1)})
	if !p.WasTaken("GPU-0", Turn{Run: "bob", UID: bob}) {
		t.Error("WasTaken ignores a gathering claim")
	}
	see(p, sec(5), nil)
	if ids, _ := p.Turns.Theirs(sec(5)); len(ids) > 0 {
		t.Errorf("gathered devices are left to others: %q", labels(p, ids))
	}
	if _, ok := p.Find(sec(5), one(8*GiB), nil); ok {
		t.Error("this run gets the gathered device")
	}
}

// After a job's end, its claim may be gone while the latest list still shows its process, now as a
// stranger's. Unless this persists, gathering must continue.
func TestStaleProcessDoesNotEndGathering(t *testing.T) {
	listed := func(p *Pool, now time.Duration) {
		see(p, now, func(i int, r *Reading) {
			if i == 1 {
				with(r, bobs(20*GiB))
			}
		})
	}
	p := waits(2, 2)
	bobsClaim := []Claim{held(p, 1, "bob", bob)}
	bobsClaim[0].Memory = 20 * GiB
	on := func(now time.Duration, claims []Claim) bool {
		p.ObserveOthers(now, claims, nil)
		g := p.Turns.Gather(now, *p.Turns.own.Requests[0].req, nil)
		return g.On
	}
	listed(p, sec(700))
	if on(sec(700), []Claim{}) || !on(sec(701), bobsClaim) || !on(sec(702), []Claim{}) || !on(sec(706), []Claim{}) {
		t.Error("a process that outlives its claim in the list ends gathering immediately")
	}
	if on(sec(707), []Claim{}) || !on(sec(708), bobsClaim) {
		t.Error("a persistent process does not end gathering until its claim is back")
	}

	p = host(2)
	listed(p, sec(9))
	w, ours := gathers(p, "carol", carol, 2), collects(p, 0, "carol", carol, time.Time{})
	keptOff := func(now time.Duration, claims ...Claim) bool {
		p.ObserveOthers(now, append(claims, ours), []Wish{w})
		_, ok := p.Find(now, one(GiB), []UUID{"GPU-1"})
		return !ok
	}
	if keptOff(sec(10)) || !keptOff(sec(11), bobsClaim...) || !keptOff(sec(12)) || !keptOff(sec(16)) || keptOff(sec(17)) {
		t.Error("seen from another run, such a process ends gathering too early or too late")
	}
}
