package gpu

import (
	"slices"
	"strings"
	"testing"
	"time"
)

const hostFile = " (/etc/gpurun/host.yaml)"

var monday = time.Date(2026, 3, 2, 12, 0, 0, 0, time.UTC)

// hostRules returns rules modified by change.
func hostRules(change func(h *HostRules)) *HostRules {
	h := NoHostRules()
	h.File, h.At = "/etc/gpurun/host.yaml", monday
	if change != nil {
		change(h)
	}
	return h
}

func num(n int) *int { return &n }

func TestUserRulesComeFromTheMostSpecificEntry(t *testing.T) {
	soon := monday.Add(time.Hour)
	entry := func(key string, priority, gpus *int, until time.Time) UserEntry {
		return UserEntry{Key: key, UIDs: []int{me}, Priority: priority, MaxGPUs: gpus, Until: until}
	}
	tests := []struct {
		name    string
		entries []UserEntry
		want    UserRules
	}{
		{"no entry", nil, UserRules{1, 6, "max_gpus_per_user: 6" + hostFile}},
		{"another user", []UserEntry{{Key: "bob", UIDs: []int{bob}, MaxGPUs: num(0), Priority: num(7)}}, UserRules{1, 6, "max_gpus_per_user: 6" + hostFile}},
		{"the user", []UserEntry{entry("alice", num(2), num(8), time.Time{})}, UserRules{2, 8, "max_gpus: 8 for alice" + hostFile}},
		{"temporary entry", []UserEntry{entry("alice", num(2), num(8), soon)}, UserRules{2, 8, "max_gpus: 8 for alice until 2026-03-02 13:00" + hostFile}},
		{"expired entry", []UserEntry{entry("alice", num(2), num(8), monday)}, UserRules{1, 6, "max_gpus_per_user: 6" + hostFile}},
		{"user entry after the group's", []UserEntry{entry("@a", num(9), num(9), time.Time{}), entry("alice", num(2), num(1), time.Time{})},
			UserRules{2, 1, "max_gpus: 1 for alice" + hostFile}},
		{"user entry before the group's", []UserEntry{entry("alice", num(2), num(1), time.Time{}), entry("@a", num(9), num(9), time.Time{})},
			UserRules{2, 1, "max_gpus: 1 for alice" + hostFile}},
		{"keys from different entries", []UserEntry{entry("@a", nil, num(9), time.Time{}), entry("alice", num(2), nil, time.Time{})},
			UserRules{2, 9, "max_gpus: 9 for @a" + hostFile}},
		{"several groups: the largest", []UserEntry{entry("@a", num(2), num(1), time.Time{}), entry("@b", num(3), num(4), time.Time{}), entry("@c", num(1), num(2), time.Time{})},
			UserRules{3, 4, "max_gpus: 4 for @b" + hostFile}},
		{"several groups: a negative priority", []UserEntry{entry("@a", num(9), nil, time.Time{}), entry("@b", num(-1), nil, time.Time{}), entry("@c", num(0), nil, time.Time{})},
			UserRules{-1, 6, "max_gpus_per_user: 6" + hostFile}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			h := hostRules(func(h *HostRules) { h.MaxGPUsPerUser, h.Users = 6, tt.entries })
			if got := h.User(me, monday); got != tt.want {
				t.Errorf("got  %+v\nwant %+v", got, tt.want)
			}
		})
	}
	if got := NoHostRules().User(me, monday); got != (UserRules{1, -1, ""}) {
		t.Errorf("without rules: %+v", got)
	}
}

func TestTimeLimitNamesItsSource(t *testing.T) {
	for limit, want := range map[time.Duration]string{
		0: "", 24 * time.Hour: "max_timeout: 24h" + hostFile, 90 * time.Minute: "max_timeout: 1h30m" + hostFile,
		10 * time.Second: "max_timeout: 10s" + hostFile, time.Minute: "max_timeout: 1m" + hostFile, time.Hour + time.Second: "max_timeout: 1h0m1s" + hostFile,
	} {
		if got := hostRules(func(h *HostRules) { h.MaxTimeout = limit }).TimeLimit(); got != want {
			t.Errorf("%s: %q, want %q", limit, got, want)
		}
	}
}

// A temporary limit must not make a request permanently impossible.
func TestTemporaryLimitIsNotImpossible(t *testing.T) {
	for until, want := range map[time.Time]int{{}: 0, monday.Add(time.Hour): 6, monday.Add(-time.Hour): 6} {
		h := hostRules(func(h *HostRules) {
			h.MaxGPUsPerUser = 6
			h.Users = []UserEntry{{Key: "mallory", UIDs: []int{me}, MaxGPUs: num(0), Until: until}}
		})
		if got := h.Ever(me).MaxGPUs; got != want {
			t.Errorf("until %v: %d, want %d", until, got, want)
		}
	}
}

// admitted observes a reading with the claims, and returns why each device is refused.
func admitted(p *Pool, at time.Duration, h *HostRules, claims []Claim, req Request) (why []string) {
	snap := Observation{At: at, Claims: claims, Host: h}
	for _, d := range p.all() {
		snap.Readings = append(snap.Readings, idle(d, at))
	}
	p.Observe(snap)
	for _, v := range p.Admit(at, req) {
		why = append(why, v.Reason)
	}
	return why
}

func TestHostRulesRefuseDevices(t *testing.T) {
	night, err := ParseHours("Mon-Fri 20:00-08:00")
	if err != nil {
		t.Fatal(err)
	}
	weekend, _ := ParseHours("Sat-Sun")
	mine := func(ids ...UUID) (claims []Claim) {
		for _, id := range ids {
			claims = append(claims, Claim{UUID: id, UID: me, User: "me", Job: "other", Share: true})
		}
		return claims
	}
	two := one(GiB)
	two.Min, two.Max, two.Share = 2, 2, false
	share := one(GiB)
	share.Share, share.MaxUtil = true, 100
	twoShared := share
	twoShared.Min, twoShared.Max = 2, 2
	tests := []struct {
		name   string
		rules  func(*HostRules)
		claims []Claim
		req    Request
		want   []string
	}{
		{"none", nil, nil, one(GiB), []string{"", "", ""}},
		{"devices", func(h *HostRules) { h.Devices = []string{"0-1"} }, nil, one(GiB), []string{"", "", "not available to gpurun: devices: 0-1" + hostFile}},
		{"devices by UUID", func(h *HostRules) { h.Devices = []string{"GPU-2"} }, nil, one(GiB),
			[]string{"not available to gpurun: devices: GPU-2" + hostFile, "not available to gpurun: devices: GPU-2" + hostFile, ""}},
		{"reserve", func(h *HostRules) { h.Reserve = 1 }, nil, one(GiB), []string{"", "", "not available to gpurun: reserve: 1" + hostFile}},
		{"reserve among devices", func(h *HostRules) { h.Devices, h.Reserve = []string{"0-1"}, 1 }, nil, one(GiB),
			[]string{"", "not available to gpurun: reserve: 1" + hostFile, "not available to gpurun: devices: 0-1" + hostFile}},
		{"quota", func(h *HostRules) { h.MaxGPUsPerUser = 1 }, mine("GPU-0"), one(GiB),
			[]string{"held by me, other", "you hold 1 GPU; max_gpus_per_user: 1" + hostFile, "you hold 1 GPU; max_gpus_per_user: 1" + hostFile}},
		{"shared with own job, quota reached", func(h *HostRules) { h.MaxGPUsPerUser = 1 }, mine("GPU-0"), share,
			[]string{"", "you hold 1 GPU; max_gpus_per_user: 1" + hostFile, "you hold 1 GPU; max_gpus_per_user: 1" + hostFile}},
		{"two devices exceed the quota", func(h *HostRules) { h.MaxGPUsPerUser = 2 }, mine("GPU-0"), two,
			[]string{"held by me, other", "you hold 1 GPU, and this job needs 2; max_gpus_per_user: 2" + hostFile, "you hold 1 GPU, and this job needs 2; max_gpus_per_user: 2" + hostFile}},
		{"two devices, one shared with own job", func(h *HostRules) { h.MaxGPUsPerUser = 1 }, mine("GPU-0"), twoShared,
			[]string{"", "you hold 1 GPU; max_gpus_per_user: 1" + hostFile, "you hold 1 GPU; max_gpus_per_user: 1" + hostFile}},
		{"another user's claim does not count", func(h *HostRules) { h.MaxGPUsPerUser = 1 }, []Claim{{UUID: "GPU-0", UID: bob, User: "bob", Job: "x"}}, one(GiB),
			[]string{"held by bob, x", "", ""}},
		{"hours", func(h *HostRules) { h.Hours = []DeviceHours{{[]string{"2"}, night}} }, nil, one(GiB),
			[]string{"", "", "closed until 20:00 by hours: Mon-Fri 20:00-08:00" + hostFile}},
		{"hours for all devices and for one", func(h *HostRules) { h.Hours = []DeviceHours{{nil, weekend}, {[]string{"2"}, night}} }, nil, one(GiB),
			[]string{"closed until Sat 00:00 by hours: Sat-Sun" + hostFile, "closed until Sat 00:00 by hours: Sat-Sun" + hostFile, "closed until 20:00 by hours: Sat-Sun, Mon-Fri 20:00-08:00" + hostFile}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			p := NewPool(some(3, 24*GiB), anyone())
			if got := admitted(p, sec(1), hostRules(tt.rules), tt.claims, tt.req); !slices.Equal(got, tt.want) {
				t.Errorf("got  %q\nwant %q", got, tt.want)
			}
			free := 0
			for _, why := range tt.want {
				if why == "" {
					free++
				}
			}
			if _, ok := p.Find(sec(1), tt.req, nil); ok != (free >= tt.req.Min) {
				t.Errorf("%d devices are free, but Find returned %v", free, ok)
			}
		})
	}
}

// Devices open and close between two readings of the rules. Changed rules apply immediately.
func TestHoursApplyBetweenReadings(t *testing.T) {
	night, _ := ParseHours("20:00-08:00")
	p := NewPool(some(1, 24*GiB), anyone())
	closed := hostRules(func(h *HostRules) { h.Hours = []DeviceHours{{nil, night}} })
	want := []string{"closed until 20:00 by hours: 20:00-08:00" + hostFile}
	if got := admitted(p, sec(1), closed, nil, one(GiB)); !slices.Equal(got, want) {
		t.Errorf("at noon: %q", got)
	}
	shut := func(now time.Duration) bool {
		return strings.HasPrefix(p.Admit(now, one(GiB))[0].Reason, "closed until")
	}
	if !shut(sec(1) + 8*time.Hour - time.Second) {
		t.Error("open a second before 20:00")
	}
	if shut(sec(1) + 8*time.Hour) {
		t.Error("closed at 20:00")
	}
	if got := admitted(p, sec(2), hostRules(nil), nil, one(GiB)); got[0] != "" {
		t.Errorf("without the rule: %q", got)
	}
}

func TestHostRulesAvoidOtherUsers(t *testing.T) {
	p := NewPool(some(1, 24*GiB), anyone())
	p.Observe(Observation{At: sec(1), Host: hostRules(func(h *HostRules) { h.Others = OthersAvoid })})
	req := one(GiB)
	req.MaxUtil = 100
	see(p, sec(2), func(_ int, r *Reading) { with(r, bobs(GiB)) })
	if v := p.Admit(sec(2), req)[0]; v.Reason != "bob's python 4711 is using 1 GiB; others: avoid"+hostFile {
		t.Errorf("a process: %q", v.Reason)
	}
	see(p, sec(3), func(_ int, r *Reading) { r.Free, r.Used = 22*GiB, 2*GiB })
	if v := p.Admit(sec(3), req)[0]; v.Reason != "2 GiB in use by no visible process; others: avoid"+hostFile {
		t.Errorf("a hidden process: %q", v.Reason)
	}
}

func TestHostCapsGPUsOfAJob(t *testing.T) {
	p := NewPool(some(4, 24*GiB), anyone())
	admitted(p, sec(1), hostRules(func(h *HostRules) { h.MaxGPUsPerJob = 3 }), nil, one(GiB))
	g, ok := p.Find(sec(1), Request{Min: 2, Max: 4, Memory: GiB, MaxUtil: 30}, nil)
	if !ok || len(g.UUIDs) != 3 {
		t.Errorf("got %v, want 3 devices", g)
	}
}

// If two runs of one user claim devices at the same time, the reading after the claim finds the
// conflict with the quota.
func TestSimultaneousClaimsOfOneUserConflict(t *testing.T) {
	theirs := func(uid int, share bool) []Claim {
		return []Claim{{UUID: "GPU-0", UID: uid, User: "x", Job: "other", Share: share}}
	}
	tests := []struct {
		name   string
		on     UUID
		share  bool
		most   int
		claims []Claim
		want   string
	}{
		{"within the quota", "GPU-1", false, 2, theirs(me, false), ""},
		{"beyond the quota", "GPU-1", false, 1, theirs(me, false), "you would hold 2 GPUs; max_gpus_per_user: 1" + hostFile},
		{"another user's", "GPU-1", false, 1, theirs(bob, false), ""},
		{"shared with own claim", "GPU-0", true, 1, theirs(me, true), ""},
		{"shared with own claim, quota lowered since", "GPU-0", true, 0, theirs(me, true), ""},
		{"no quota", "GPU-1", false, -1, theirs(me, false), ""},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			p := NewPool(some(2, 24*GiB), anyone())
			admitted(p, sec(1), hostRules(func(h *HostRules) { h.MaxGPUsPerUser = tt.most }), nil, one(GiB))
			g := Grant{UUIDs: []UUID{tt.on}, Memory: GiB, Share: tt.share}
			p.Hold("mine", g)
			if got := p.Conflict(0, g, tt.claims); got != tt.want {
				t.Errorf("got %q, want %q", got, tt.want)
			}
		})
	}
}

func TestDeviceTheHostNeverAllowsIsImpossible(t *testing.T) {
	request := func(n int, ids ...string) Request {
		return Request{Min: n, Max: n, Memory: GiB, MaxUtil: 30, IDs: NamesOf(ids)}
	}
	tests := []struct {
		name  string
		rules func(*HostRules)
		req   Request
		want  string
	}{
		{"fits", func(h *HostRules) { h.Devices = []string{"0-2"} }, request(3), ""},
		{"devices", func(h *HostRules) { h.Devices = []string{"0-2"} }, request(4), "needs 4 GPUs, but this machine has 3; GPU 3: not available to gpurun: devices: 0-2" + hostFile},
		{"gpu_ids", func(h *HostRules) { h.Devices = []string{"0-2"} }, request(1, "3"), "this run is not allowed to use any of the job's gpu_ids (3); GPU 3: not available to gpurun: devices: 0-2" + hostFile},
		{"reserve of all", func(h *HostRules) { h.Reserve = 9 }, request(1), "no suitable GPU here: GPU 0: not available to gpurun: reserve: 9" + hostFile},
		{"reserve", func(h *HostRules) { h.Reserve = 1 }, request(4), "needs 4 GPUs, but this machine has 3; GPU 3: not available to gpurun: reserve: 1" + hostFile},
		{"per job", func(h *HostRules) { h.MaxGPUsPerJob = 2 }, request(3), "needs 3 GPUs; max_gpus_per_job: 2" + hostFile},
		{"per user", func(h *HostRules) { h.MaxGPUsPerUser, h.MaxGPUsPerJob, h.Reserve = 2, 3, 1 }, request(3), "needs 3 GPUs; max_gpus_per_user: 2" + hostFile},
		{"entry of this user", func(h *HostRules) { h.Users = []UserEntry{{Key: "mallory", UIDs: []int{me}, MaxGPUs: num(0)}} }, request(1), "needs 1 GPU; max_gpus: 0 for mallory" + hostFile},
		{"no GPU requested", func(h *HostRules) { h.MaxGPUsPerUser = 0 }, request(0), ""},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			rules := anyone()
			rules.Host = hostRules(tt.rules)
			p := NewPool(some(4, 24*GiB), rules)
			if got, _ := p.Never(tt.req); got != tt.want {
				t.Errorf("Never: %q, want %q", got, tt.want)
			}
			if _, ok := p.Possible(tt.req); ok != (tt.want == "") {
				t.Errorf("Possible: %v", ok)
			}
		})
	}
}
