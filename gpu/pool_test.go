package gpu

import (
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"
)

const me, bob = 1000, 1001

// sec returns the CLOCK_BOOTTIME of n seconds after boot.
func sec(n float64) time.Duration { return time.Duration(n * float64(time.Second)) }

// some returns n GPUs with total memory each.
func some(n int, total Bytes) []Device {
	devs := make([]Device, n)
	for i := range devs {
		devs[i] = Device{Index: i, UUID: UUID(fmt.Sprintf("GPU-%d", i)), Name: "NVIDIA A100-SXM4-80GB", Total: total}
	}
	return devs
}

// anyone returns the rules of a run that manages all devices.
func anyone() Rules {
	return Rules{MinGPUs: -1, MaxGPUs: -1, Others: OthersAllow, Pick: FirstFit, UID: me}
}

// idle returns a full reading of an empty device.
func idle(d Device, at time.Duration) Reading {
	return Reading{UUID: d.UUID, Total: d.Total, Free: d.Total, Used: 0, Listed: true, Samples: []Sample{{At: at}}}
}

// see observes one full reading of every device: idle, then modified by change.
func see(p *Pool, at time.Duration, change func(i int, r *Reading)) {
	snap := Observation{At: at}
	for i, d := range p.all() {
		r := idle(d, at)
		if change != nil {
			change(i, &r)
		}
		snap.Readings = append(snap.Readings, r)
	}
	p.Observe(snap)
}

// with adds a process and its memory to a reading.
func with(r *Reading, pr Process) {
	r.Processes = append(r.Processes, pr)
	if pr.Memory > 0 {
		r.Free -= pr.Memory
		r.Used += pr.Memory
	}
}

func bobs(memory Bytes) Process {
	return Process{PID: 4711, UID: bob, User: "bob", Command: "python", Memory: memory}
}

func one(memory Bytes) Request { return Request{Min: 1, Max: 1, Memory: memory, MaxUtil: 30} }

func busySamples(at time.Duration, percent int) []Sample { return []Sample{{At: at, Percent: percent}} }

func TestAdmitReportsTheReason(t *testing.T) {
	tests := []struct {
		name   string
		rules  func(*Rules)
		req    func(*Request)
		see    func(r *Reading)
		do     func(p *Pool)
		want   string // the reason; "" if admitted
		code   Code
		user   string
		never  bool
		ours   bool
		device func(*Device)
	}{
		{name: "idle"},
		{name: "exactly fits", see: func(r *Reading) { with(r, bobs(4*GiB)); r.Samples = nil }, req: func(r *Request) { r.Memory = 20 * GiB }},
		{name: "one byte short", code: MemoryShort, user: "bob", see: func(r *Reading) { with(r, bobs(4*GiB+1)) }, req: func(r *Request) { r.Memory = 20 * GiB },
			want: "20479 MiB free, 20480 MiB needed; bob's python 4711 is using 4 GiB"},
		{name: "not managed", code: NotManaged, rules: func(r *Rules) { r.IDs = []string{"7"} }, want: "not managed by this run (gpu_ids)", never: true},
		{name: "reserved", code: Reserved, rules: func(r *Rules) { r.Reserve = 1 }, want: "reserved for other users (reserve: 1)", never: true},
		{name: "not in the job's gpu_ids", code: NotAsked, req: func(r *Request) { r.IDs = "GPU-7" }, want: "not in the job's gpu_ids", never: true},
		{name: "UUID prefix in the job's gpu_ids", req: func(r *Request) { r.IDs = "GPU" }},
		{name: "model", req: func(r *Request) { r.Models = "a100" }},
		{name: "other model", code: OtherModel, req: func(r *Request) { r.Models = NamesOf([]string{"h100", "h200"}) },
			want: `NVIDIA A100-SXM4-80GB, not "h100" or "h200"`, never: true},
		{name: "too small", code: TooSmall, req: func(r *Request) { r.Memory = 40 * GiB }, want: "24 GiB total, 40 GiB needed", never: true},
		{name: "never read", code: Unread, do: func(p *Pool) { p.devs[0].read = false }, want: "not read yet"},
		{name: "lost", code: SilentNow, see: func(r *Reading) { r.Err = "GPU is lost" }, want: "does not answer: GPU is lost"},
		{name: "no reading at all", code: Unread, do: func(p *Pool) { p.Observe(Observation{At: sec(101), Err: "hangs since 14:02"}) }, want: "no readings: hangs since 14:02"},
		{name: "prohibited", code: Prohibited, see: func(r *Reading) { r.ComputeMode = ComputeProhibited }, want: "compute mode is prohibited, so no process can use the GPU"},
		{name: "exclusive and empty", see: func(r *Reading) { r.ComputeMode = ComputeExclusive }},
		{name: "exclusive and used", code: Exclusive, user: "bob", see: func(r *Reading) { r.ComputeMode = ComputeExclusive; with(r, bobs(GiB)) },
			want: "compute mode is exclusive, and bob's python 4711 is using 1 GiB"},
		{name: "exclusive and held, shared", code: Held, see: func(r *Reading) { r.ComputeMode = ComputeExclusive },
			do:  func(p *Pool) { p.Hold("a", Grant{UUIDs: []UUID{"GPU-0"}, Share: true}) },
			req: func(r *Request) { r.Share = true }, want: "held by a job of this run", ours: true},
		{name: "held here", code: Held, do: func(p *Pool) { p.Hold("a", Grant{UUIDs: []UUID{"GPU-0"}}) }, want: "held by a job of this run", ours: true},
		{name: "held by a job that does not share", code: Held, do: func(p *Pool) { p.Hold("a", Grant{UUIDs: []UUID{"GPU-0"}}) },
			req: func(r *Request) { r.Share = true }, want: "held by a job of this run", ours: true},
		{name: "shared", do: func(p *Pool) { p.Hold("a", Grant{UUIDs: []UUID{"GPU-0"}, Memory: 4 * GiB, Share: true}) },
			req: func(r *Request) { r.Share = true; r.Memory = 20 * GiB }},
		{name: "shared, memory promised", code: MemoryShort, do: func(p *Pool) { p.Hold("a", Grant{UUIDs: []UUID{"GPU-0"}, Memory: 5 * GiB, Share: true}) },
			req: func(r *Request) { r.Share = true; r.Memory = 20 * GiB }, ours: true,
			want: "19 GiB free, 20 GiB needed; another 5 GiB is promised to running jobs"},
		{name: "claimed", code: Claimed, user: "alice", do: func(p *Pool) {
			p.Observe(Observation{At: sec(100), Claims: []Claim{{UUID: "GPU-0", User: "alice", Job: "train-svhn-s42", Since: time.Date(2026, 1, 2, 14, 2, 0, 0, time.Local).In(time.FixedZone("theirs", 14*60*60))}}})
		}, want: "held by alice, train-svhn-s42, since 14:02"},
		{name: "claimed by a job that shares", code: MemoryShort, user: "uid 0", do: func(p *Pool) {
			p.Observe(Observation{At: sec(100), Claims: []Claim{{UUID: "GPU-0", Memory: 20 * GiB, Taken: 12 * GiB, Share: true}}})
		}, req: func(r *Request) { r.Share = true; r.Memory = 17 * GiB }, want: "16 GiB free, 17 GiB needed; another 8 GiB is promised to running jobs"},
		{name: "own process", code: Own, user: "me", see: func(r *Reading) { with(r, Process{PID: 7, UID: me, User: "me", Memory: GiB}) }, want: "me's process 7 is using 1 GiB"},
		{name: "own process, shared", see: func(r *Reading) { with(r, Process{PID: 7, UID: me, Memory: GiB}); r.Samples[0].Percent = 90 },
			req: func(r *Request) { r.Share = true }},
		{name: "own process, shared, limit on own too", code: Busy, user: "uid 1000", see: func(r *Reading) { with(r, Process{PID: 7, UID: me, Memory: GiB}); r.Samples[0].Percent = 90 },
			req: func(r *Request) { r.Share = true; r.UtilOnOwn = true }, want: "90% busy, limit 30%"},
		{name: "other user avoided", code: OthersThere, user: "bob", rules: func(r *Rules) { r.Others = OthersAvoid }, see: func(r *Reading) { with(r, bobs(GiB)) },
			want: "bob's python 4711 is using 1 GiB (others: avoid)"},
		{name: "invisible memory avoided", code: Hidden, rules: func(r *Rules) { r.Others = OthersAvoid }, see: func(r *Reading) { r.Used, r.Free = GiB, 23*GiB },
			want: "1 GiB in use by no visible process (others: avoid)"},
		{name: "invisible memory within the slack", rules: func(r *Rules) { r.Others = OthersAvoid }, see: func(r *Reading) { r.Used, r.Free = 512*MiB, 23*GiB }},
		{name: "unknown user", code: MemoryShort, see: func(r *Reading) { with(r, Process{PID: 9, UID: -1, Memory: 30 * GiB / 2}) }, req: func(r *Request) { r.Memory = 20 * GiB },
			want: "9 GiB free, 20 GiB needed; an unknown user's process 9 is using 15 GiB"},
		{name: "invisible memory reported", code: MemoryShort, see: func(r *Reading) { r.Used, r.Free = 14*GiB, 10*GiB }, req: func(r *Request) { r.Memory = 12 * GiB },
			want: "10 GiB free, 12 GiB needed; 14 GiB in use by no visible process"},
		{name: "busy", code: Busy, user: "bob", see: func(r *Reading) { with(r, bobs(GiB)); r.Samples[0].Percent = 71 }, want: "71% busy, limit 30%"},
		{name: "at the limit, but watched too briefly", code: Watching, user: "bob", see: func(r *Reading) { with(r, bobs(GiB)); r.Samples[0].Percent = 30 }, want: "watched for only 0 of 60 s"},
		{name: "judged immediately", rules: func(r *Rules) { r.AtOnce = true }, see: func(r *Reading) { with(r, bobs(GiB)); r.Samples[0].Percent = 30 }},
		{name: "no limit", see: func(r *Reading) { with(r, bobs(GiB)); r.Samples[0].Percent = 99 }, req: func(r *Request) { r.MaxUtil = 100 }},
		{name: "empty but latched at 100%", see: func(r *Reading) { r.Samples[0].Percent = 100 }},
		{name: "utilization unknown", see: func(r *Reading) { with(r, bobs(GiB)); r.Samples = nil }},
		{name: "free memory unknown, no process", see: func(r *Reading) { r.Free, r.Used, r.Total = -1, -1, -1 }},
		{name: "free memory unknown, one process", code: Unread, see: func(r *Reading) { with(r, bobs(-1)); r.Free, r.Used = -1, -1 },
			want: "cannot read its free memory, and bob's python 4711 is running on it"},
		{name: "memory and processes unknown", code: Unread, see: func(r *Reading) { r.Free, r.Used, r.Listed = -1, -1, false }, want: "cannot read its free memory or its processes"},
		{name: "MIG instance for one GPU", device: func(d *Device) { d.MIG = true }, see: func(r *Reading) { with(r, bobs(GiB)); r.Samples = nil }},
		{name: "MIG instance for two GPUs", code: MIGInstance, device: func(d *Device) { d.MIG = true }, req: func(r *Request) { r.Min, r.Max = 2, 2 },
			want: "a MIG instance, but the job needs 2 GPUs", never: true},
		{name: "just released", code: Releasing, do: func(p *Pool) {
			p.Hold("a", Grant{UUIDs: []UUID{"GPU-0"}})
			p.Release(sec(101), "a")
		}, want: "just freed; reading its free memory", ours: true},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			devs, rules, req := some(1, 24*GiB), anyone(), one(8*GiB)
			apply(tt.device, &devs[0])
			apply(tt.rules, &rules)
			apply(tt.req, &req)
			p := NewPool(devs, rules)
			see(p, sec(100), func(_ int, r *Reading) { apply(tt.see, r) })
			if tt.do != nil {
				tt.do(p)
			}
			got := p.Admit(sec(101), req)[0]
			if got.Code != tt.code || got.User != tt.user {
				t.Errorf("got code %q and user %q, want %q and %q", got.Code, got.User, tt.code, tt.user)
			}
			if got.Reason != tt.want || got.OK != (tt.want == "") || got.Never != tt.never || got.Ours != tt.ours {
				t.Errorf("got %+v, want reason %q, never %t, ours %t", got, tt.want, tt.never, tt.ours)
			}
			if fits(p, sec(101), req) != (got.OK && req.Min == 1) {
				t.Errorf("Find disagrees with %+v", got)
			}
		})
	}
}

func apply[T any](f func(*T), v *T) {
	if f != nil {
		f(v)
	}
}

func TestUtilizationIsJudgedOverWindows(t *testing.T) {
	p := NewPool(some(1, 24*GiB), anyone())
	reason := func(at, percent float64, prs ...Process) string {
		see(p, sec(at), func(_ int, r *Reading) {
			for _, pr := range prs {
				with(r, pr)
			}
			r.Samples = busySamples(sec(at), int(percent))
		})
		return p.Admit(sec(at), one(8*GiB))[0].Reason
	}
	var got []string
	got = append(got, reason(0, 10, bobs(GiB)))
	for at := 5.0; at < 25; at += 5 {
		reason(at, 0, bobs(GiB))
	}
	got = append(got, reason(25, 80, bobs(GiB)), reason(30, 0, bobs(GiB)))
	for at := 35.0; at < 85; at += 5 {
		reason(at, 0, bobs(GiB))
	}
	got = append(got, reason(85, 0, bobs(GiB)), reason(85.1, 0, bobs(GiB)), reason(200, 0, bobs(GiB)))
	want := []string{"watched for only 0 of 60 s", "80% busy, limit 30%", "80% busy in the last 60 s, limit 30%",
		"80% busy in the last 60 s, limit 30%", "", "watched for only 0 of 60 s"}
	if !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
}

func TestWatchingRestartsAfterAGap(t *testing.T) {
	for _, tt := range []struct {
		name string
		poll time.Duration
		want string
	}{{"longer than usual", 5 * time.Second, "watched for only 0 of 60 s"}, {"as long as the poll", 60 * time.Second, ""}, {"poll unknown", 0, ""}} {
		t.Run(tt.name, func(t *testing.T) {
			rules := anyone()
			rules.Poll = tt.poll
			p := NewPool(some(1, 24*GiB), rules)
			stand := func(_ int, r *Reading) { with(r, bobs(GiB)) }
			see(p, sec(0), stand)
			see(p, sec(60), stand)
			if got := p.Admit(sec(60), one(GiB))[0].Reason; got != tt.want {
				t.Errorf("got %q, want %q", got, tt.want)
			}
		})
	}
}

func TestAtOnceNotesShortWatching(t *testing.T) {
	rules := anyone()
	rules.AtOnce = true
	p := NewPool(some(1, 24*GiB), rules)
	for at := 0.0; at <= 25; at += 5 {
		see(p, sec(at), func(_ int, r *Reading) { with(r, bobs(GiB)) })
	}
	if got, want := p.Admit(sec(25), one(GiB))[0].Note, "watched for only 25 of 60 s"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}

func TestPromisedMemoryIsNotFree(t *testing.T) {
	tests := []struct {
		name    string
		granted Bytes
		procs   []Process // processes of attempt a
		want    Bytes     // free minus promised, of 24 GiB
	}{
		{"none allocated", 8 * GiB, nil, 16 * GiB},
		{"half allocated", 8 * GiB, []Process{{Memory: 4 * GiB}}, 16 * GiB},
		{"all allocated", 8 * GiB, []Process{{Memory: 4 * GiB}, {Memory: 4 * GiB}}, 16 * GiB},
		{"more allocated than granted", 8 * GiB, []Process{{Memory: 10 * GiB}}, 14 * GiB},
		{"memory by process unknown", 8 * GiB, []Process{{Memory: -1}}, 16 * GiB},
		{"more promised than free", 30 * GiB, nil, 0},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			p := NewPool(some(1, 24*GiB), anyone())
			p.Hold("a", Grant{UUIDs: []UUID{"GPU-0"}, Memory: tt.granted, Share: true})
			see(p, sec(1), func(_ int, r *Reading) {
				for _, pr := range tt.procs {
					pr.UID, pr.Attempt = me, "a"
					with(r, pr)
				}
			})
			if got := p.devs[0].available(); got != tt.want {
				t.Errorf("got %s, want %s", got, tt.want)
			}
		})
	}
}

// A quick reading has no process list. So free memory may be another attempt's, freed for a moment
// while the ended attempt's memory lingers.
func TestHandOverNextToOtherJobs(t *testing.T) {
	p := NewPool(some(1, 40*GiB), anyone())
	ids := []UUID{"GPU-0"}
	p.Hold("a", Grant{UUIDs: ids, Memory: 18 * GiB, Share: true})
	p.Hold("b", Grant{UUIDs: ids, Memory: 20 * GiB, Share: true})
	see(p, sec(1), func(_ int, r *Reading) {
		with(r, Process{UID: me, Attempt: "a", Memory: 18 * GiB})
		with(r, Process{UID: me, Attempt: "b", Memory: 15 * GiB})
	})
	p.Release(sec(2), "b")
	if !p.StillInUse(ids) {
		t.Error("StillInUse is false next to another job")
	}
	free := func() Bytes { return p.devs[0].available() }
	p.Observe(Observation{At: sec(2), Readings: []Reading{{UUID: "GPU-0", Total: 40 * GiB, Free: 22 * GiB, Used: 18 * GiB}}})
	if got, want := free(), 4*GiB; got != want {
		t.Errorf("after a quick reading: got %s, want %s", got, want)
	}
	see(p, sec(2), func(_ int, r *Reading) { with(r, Process{UID: me, Attempt: "a", Memory: 18 * GiB}) })
	if got, want := free(), 22*GiB; got != want {
		t.Errorf("after a full one: got %s, want %s", got, want)
	}
	p.Release(sec(3), "a")
	if p.StillInUse(ids) {
		t.Error("StillInUse is true after the last job")
	}
}

func TestHandOverReturnsTheDeviceImmediately(t *testing.T) {
	p := NewPool(some(1, 24*GiB), anyone())
	p.Hold("a", Grant{UUIDs: []UUID{"GPU-0"}, Memory: 20 * GiB})
	see(p, sec(1), func(_ int, r *Reading) {
		with(r, Process{UID: me, Attempt: "a", Memory: 20 * GiB})
		r.Samples[0].Percent = 98
	})
	if got := p.Release(sec(2), "a"); !reflect.DeepEqual(got, []UUID{"GPU-0"}) {
		t.Errorf("Release: got %v", got)
	}
	quick := func(at float64, free Bytes) Verdict {
		p.Observe(Observation{At: sec(at), Readings: []Reading{{UUID: "GPU-0", Total: 24 * GiB, Free: free, Used: 24*GiB - free}}})
		return p.Admit(sec(at), one(20*GiB))[0]
	}
	see(p, sec(1.9), nil) // older than the release: ignored
	if v := p.Admit(sec(2), one(GiB))[0]; v.OK {
		t.Errorf("before its memory was read: got %+v", v)
	}
	if v := quick(2.005, 4*GiB); v.OK || !v.Ours {
		t.Errorf("memory lingers: got %+v, want a refusal because of ours", v)
	}
	if v := quick(2.01, 24*GiB); !v.OK {
		t.Errorf("memory is free again: got %+v, want it admitted without samples", v)
	}
}

// During a hand-over, memory in use by no visible process may be the ended job's. So a process list
// ends the hand-over only if it shows a process.
func TestProcessListEndsHandOver(t *testing.T) {
	claimed := func(p *Pool) {
		p.Yield([]UUID{"GPU-0"})
		p.Observe(Observation{At: sec(2), Claims: []Claim{{UUID: "GPU-0", User: "alice"}}})
	}
	const watched, unseen = "98% busy in the last 60 s, limit 30%", "3 GiB in use by no visible process (others: avoid)"
	tests := []struct {
		name   string
		others Others
		base   Bytes // memory used by no visible process all the time
		do     func(*Pool)
		list   func(*Reading)
		at     float64
		ours   bool   // whether the missing memory counts as this run's
		want   string // why the device is refused once the memory is free, or ""
	}{
		{name: "no process", at: 2.01, ours: true},
		{name: "no process, others avoided", others: OthersAvoid, at: 2.01, ours: true},
		{name: "invisible process all along", base: 3 * GiB, at: 2.01, ours: true},
		{name: "invisible process, others avoided", others: OthersAvoid, base: 3 * GiB, at: 2.01, want: unseen},
		{name: "bob", list: func(r *Reading) { with(r, bobs(GiB)) }, at: 2.01, want: watched},
		{name: "a claim", do: claimed, at: 2.01, want: "held by alice"},
		{name: "no process, after 30 s", at: 32.01, want: watched},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			rules := anyone()
			if tt.others != "" {
				rules.Others = tt.others
			}
			p := NewPool(some(1, 24*GiB), rules)
			used := func(r *Reading, n Bytes) { r.Used += n; r.Free -= n }
			p.Hold("a", Grant{UUIDs: []UUID{"GPU-0"}, Memory: 20 * GiB})
			see(p, sec(1), func(_ int, r *Reading) {
				used(r, tt.base)
				with(r, Process{UID: me, Attempt: "a", Memory: 20 * GiB})
				r.Samples[0].Percent = 98
			})
			p.Release(sec(2), "a")
			apply(tt.do, p)
			see(p, sec(tt.at), func(_ int, r *Reading) {
				used(r, tt.base+20*GiB)
				apply(tt.list, r)
			})
			if v := p.Admit(sec(tt.at), one(20*GiB))[0]; v.OK || v.Ours != tt.ours {
				t.Errorf("memory lingers: got %+v, want a refusal, because of ours %t", v, tt.ours)
			}
			back := idle(p.all()[0], sec(tt.at+0.005))
			back.Listed, back.Samples = false, nil
			used(&back, tt.base)
			p.Observe(Observation{At: sec(tt.at + 0.005), Readings: []Reading{back}})
			if v := p.Admit(sec(tt.at+0.005), one(20*GiB))[0]; v.Reason != tt.want || v.OK != (tt.want == "") {
				t.Errorf("memory is free again: got %+v, want reason %q", v, tt.want)
			}
		})
	}
}

// A run does not take a device back at once if a stranger has come to it during its job. One that was
// there before has been watched; and a process beside a job without visible processes may be its own.
func TestStrangerBesideJobIsWatched(t *testing.T) {
	for name, watched := range map[string]bool{"newcomer": true, "before": false, "in a container": false} {
		t.Run(name, func(t *testing.T) { testStranger(t, name, watched) })
	}
}

func testStranger(t *testing.T, name string, watched bool) {
	p := NewPool(some(1, 24*GiB), anyone())
	if name == "before" {
		see(p, sec(0), func(_ int, r *Reading) { with(r, bobs(GiB)) })
	}
	p.Hold("a", Grant{UUIDs: []UUID{"GPU-0"}, Memory: 8 * GiB})
	see(p, sec(1), func(_ int, r *Reading) {
		if name != "in a container" {
			with(r, Process{UID: me, Attempt: "a", Memory: 8 * GiB})
		}
		with(r, bobs(GiB))
		r.Samples[0].Percent = 95
	})
	p.Release(sec(2), "a")
	back := idle(p.all()[0], sec(2.005))
	back.Listed, back.Samples, back.Free, back.Used = false, nil, 23*GiB, GiB
	p.Observe(Observation{At: sec(2.005), Readings: []Reading{back}})
	if v := p.Admit(sec(2.01), one(8*GiB))[0]; v.OK == watched || watched && !strings.HasPrefix(v.Reason, "95% busy") {
		t.Errorf("got %+v, want that bob's process is watched: %v", v, watched)
	}
}

// An ended job's memory only shrinks. Memory allocated later belongs to another process, even if
// none is visible.
func TestInvisibleProcessAfterJobIsNoticed(t *testing.T) {
	const watched = "98% busy, limit 30%"
	used := func(r *Reading, n Bytes) { r.Used += n; r.Free -= n }
	tests := []struct {
		name  string
		comes Bytes
		quick bool // seen by a quick reading first
		want  string
	}{
		{name: "no process"},
		{name: "invisible process", comes: 10 * GiB, want: watched},
		{name: "invisible process, first seen in a quick reading", comes: 10 * GiB, quick: true, want: watched},
		{name: "memory of the driver", comes: slack / 2},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			p := NewPool(some(1, 24*GiB), anyone())
			see(p, sec(0), nil)
			p.Hold("a", Grant{UUIDs: []UUID{"GPU-0"}, Memory: 8 * GiB})
			p.Release(sec(2), "a")
			quick := func(at float64, n Bytes) {
				r := idle(p.all()[0], sec(at))
				r.Listed, r.Samples = false, nil
				used(&r, n)
				p.Observe(Observation{At: sec(at), Readings: []Reading{r}})
			}
			quick(2.01, 8*GiB)
			quick(2.03, 0)
			if tt.quick {
				quick(9, tt.comes)
			}
			see(p, sec(10), func(_ int, r *Reading) {
				used(r, tt.comes)
				r.Samples[len(r.Samples)-1].Percent = 98
			})
			if v := p.Admit(sec(10), one(8*GiB))[0]; v.Reason != tt.want || v.OK != (tt.want == "") {
				t.Errorf("got %+v, want reason %q", v, tt.want)
			}
		})
	}
}

// The second hand-over works like the first, even if the last process list was read while the first
// job's memory lingered.
func TestConsecutiveHandOvers(t *testing.T) {
	p := NewPool(some(1, 24*GiB), anyone())
	see(p, sec(0), nil)
	lingers := func(_ int, r *Reading) { r.Used, r.Free = 20*GiB, 4*GiB }
	quick := func(at float64, free Bytes) Verdict {
		p.Observe(Observation{At: sec(at), Readings: []Reading{{UUID: "GPU-0", Total: 24 * GiB, Free: free, Used: 24*GiB - free}}})
		return p.Admit(sec(at), one(20*GiB))[0]
	}
	for i := range 2 {
		at := 1 + float64(i)
		name := fmt.Sprint("a", i)
		p.Hold(name, Grant{UUIDs: []UUID{"GPU-0"}, Memory: 20 * GiB})
		p.Release(sec(at), name)
		if v := quick(at+0.1, 4*GiB); v.OK || !v.Ours {
			t.Errorf("%s: memory lingers: got %+v, want a refusal because of ours", name, v)
		}
		see(p, sec(at+0.2), lingers)
		if v := quick(at+0.3, 24*GiB); !v.OK {
			t.Errorf("%s: memory is free again: got %+v, want it admitted", name, v)
		}
	}
}

func TestUndoLeavesNoTrace(t *testing.T) {
	p := NewPool(some(1, 24*GiB), anyone())
	see(p, sec(1), nil)
	p.Hold("a", Grant{UUIDs: []UUID{"GPU-0"}, Memory: 20 * GiB})
	p.Undo("a")
	if v := p.Admit(sec(1), one(24*GiB))[0]; !v.OK {
		t.Errorf("got %+v, want it admitted immediately", v)
	}
	if got := p.Release(sec(1), "a"); got != nil {
		t.Errorf("Release after Undo: got %v, want nil", got)
	}
}

func TestMaxGPUsLimitsTheRun(t *testing.T) {
	tests := []struct {
		name                      string
		minGPUs, maxGPUs, reserve int
		full                      int // devices without free memory
		hold                      int
		want                      int // devices that a single request for 1-8 gets
	}{
		{"max", -1, 3, 0, 0, 0, 3},
		{"reserve of 8", 3, 8, 2, 0, 0, 6},
		{"min_gpus exceeds what reserve leaves", 3, 8, 6, 0, 0, 3},
		{"unavailable devices do not fill the reserve", 3, 8, 2, 4, 0, 3},
		{"some held", 3, 8, 2, 0, 4, 2},
		{"all held", -1, 2, 0, 0, 2, 0},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			rules := anyone()
			rules.MinGPUs, rules.MaxGPUs, rules.Reserve = tt.minGPUs, tt.maxGPUs, tt.reserve
			p := NewPool(some(8, 24*GiB), rules)
			see(p, sec(1), func(i int, r *Reading) {
				if i >= 8-tt.full {
					with(r, bobs(23*GiB+GiB/2))
				}
			})
			for i := range tt.hold {
				p.Hold(fmt.Sprint(i), Grant{UUIDs: []UUID{p.devs[i].UUID}})
			}
			g, verdicts, ok := choose(p, sec(1), Request{Min: 1, Max: 8, Memory: GiB, MaxUtil: 30}, nil)
			if len(g.UUIDs) != tt.want || ok != (tt.want > 0) {
				t.Errorf("got %v, want %d devices", g.UUIDs, tt.want)
			}
			if !ok && !strings.Contains(verdicts[7].Reason, "the most that min_gpus, max_gpus and reserve allow now") {
				t.Errorf("got reason %q, want the limits named", verdicts[7].Reason)
			}
		})
	}
}

func TestRequestGetsAllDevicesOrNone(t *testing.T) {
	p := NewPool(some(4, 24*GiB), anyone())
	see(p, sec(1), func(i int, r *Reading) {
		if i == 1 {
			r.Err = "GPU is lost"
		}
	})
	for _, tt := range []struct {
		name     string
		min, max int
		kept     []UUID
		want     []int
	}{
		{"none", 0, 0, nil, nil},
		{"all that answer", 3, 3, nil, []int{0, 2, 3}},
		{"too many", 4, 4, nil, nil},
		{"as many as answer", 2, 4, nil, []int{0, 2, 3}},
		{"kept devices excluded", 1, 4, []UUID{"GPU-2"}, []int{0, 3}},
		{"too few left after kept devices", 3, 3, []UUID{"GPU-2"}, nil},
	} {
		t.Run(tt.name, func(t *testing.T) {
			g, verdicts, ok := choose(p, sec(1), Request{Min: tt.min, Max: tt.max, Memory: GiB, MaxUtil: 30}, tt.kept)
			if !slices.Equal(g.Indices, tt.want) || ok == (verdicts != nil) {
				t.Errorf("got %+v, %t, %+v, want %v", g, ok, verdicts, tt.want)
			}
		})
	}
}

// choose returns a grant, or why each device is refused.
func choose(p *Pool, now time.Duration, req Request, kept []UUID) (Grant, []Verdict, bool) {
	if g, ok := p.Find(now, req, kept); ok {
		return g, nil, true
	}
	return Grant{}, p.Admit(now, req), false
}

func fits(p *Pool, now time.Duration, req Request) bool {
	_, ok := p.Find(now, req, nil)
	return ok
}

// A reading is up to date for 100 ms after it is observed, however long the driver took to answer.
func TestReadingIsFreshForShortTime(t *testing.T) {
	p := NewPool(some(2, 24*GiB), anyone())
	p.AdvanceTo(sec(9))
	admitted(p, sec(1), nil, nil, one(GiB))
	ids := []UUID{"GPU-0", "GPU-1"}
	if old := p.MayHaveNewcomers(sec(9.1), ids); len(old) > 0 {
		t.Errorf("after 100 ms, %q are out of date, want none", old)
	}
	p.Hold("a", Grant{UUIDs: ids[:1], Share: true})
	if old := p.MayHaveNewcomers(sec(9.2), ids); !slices.Equal(old, ids[1:]) {
		t.Errorf("after 200 ms, %q are out of date, want GPU-1, which no job holds", old)
	}
}
