package cli

import (
	"errors"
	"fmt"
	"reflect"
	"strings"
	"testing"
	"time"

	"gpurun/gpu"
	"gpurun/jobspec"
	"gpurun/runner/batches"
	"gpurun/runner/sched"
	"gpurun/state"
)

func TestStatusOfARun(t *testing.T) {
	ended := func(p state.Phase) state.Snapshot {
		return state.Snapshot{Counts: map[state.Phase]int{state.Succeeded: 3, p: 1}}
	}
	full := errors.New("no space left")
	cases := map[string]struct {
		r      state.Result
		noWait bool
		want   int
	}{
		"all done":            {state.Result{Final: ended(state.Succeeded)}, false, 0},
		"up to date":          {state.Result{Final: ended(state.UpToDate)}, false, 0},
		"failed":              {state.Result{Final: ended(state.Failed)}, false, 1},
		"timeout":             {state.Result{Final: ended(state.Timeout)}, false, 1},
		"oom":                 {state.Result{Final: ended(state.OOM)}, false, 1},
		"lost":                {state.Result{Final: ended(state.Lost)}, false, 1},
		"blocked":             {state.Result{Final: ended(state.Blocked)}, false, 1},
		"cancelled":           {state.Result{Final: ended(state.Cancelled)}, false, 1},
		"gave up":             {state.Result{Final: ended(state.Failed), GaveUp: true}, false, 124},
		"no wait":             {state.Result{Final: ended(state.Pending), GaveUp: true}, true, 75},
		"disk full":           {state.Result{Final: ended(state.Failed), GaveUp: true, StateErr: full}, false, 4},
		"Ctrl-C":              {state.Result{Final: ended(state.Failed), StateErr: full, Stopped: "SIGINT"}, false, 130},
		"SIGTERM":             {state.Result{Final: ended(state.Interrupted), Stopped: "SIGTERM"}, false, 143},
		"gpurun stop":         {state.Result{Final: ended(state.Interrupted), Stopped: "gpurun stop"}, false, 143},
		"something left over": {state.Result{Final: ended(state.Pending)}, false, 1},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			if got := batches.ExitOf(c.r, c.noWait); got != c.want {
				t.Errorf("got %d, want %d", got, c.want)
			}
		})
	}
}

// Readings two minutes apart do not interrupt the watch of a GPU.
func TestRulesKnowThePoll(t *testing.T) {
	const poll = 2 * time.Minute
	devs := []gpu.Device{{UUID: "GPU-a", Total: 24 * gpu.GiB}}
	rules, err := rulesOf(jobspec.Settings{Poll: poll, MinGPUs: -1, MaxGPUs: -1}, devs, hostRules{}, inherited{})
	if err != nil {
		t.Fatal(err)
	}
	pool := gpu.NewPool(devs, rules)
	alice := []gpu.Process{{PID: 1, UID: rules.UID + 1, Memory: gpu.GiB}}
	for now := time.Duration(0); now <= poll; now += poll {
		r := gpu.Reading{UUID: "GPU-a", Total: 24 * gpu.GiB, Free: 23 * gpu.GiB, Used: gpu.GiB, Listed: true, Processes: alice, Samples: []gpu.Sample{{At: now}}}
		pool.Observe(gpu.Observation{At: now, Readings: []gpu.Reading{r}})
	}
	req := gpu.Request{Min: 1, Max: 1, Memory: 8 * gpu.GiB, MaxUtil: 30}
	if v := pool.Admit(poll, req); !v[0].OK {
		t.Errorf("GPU 0: %s", v[0].Reason)
	}
}

func TestInterruptDrainsStopsKills(t *testing.T) {
	type asked struct{ drain, all, kill bool }
	cases := []struct {
		n    int
		tty  bool
		want asked
	}{
		{1, true, asked{drain: true}}, {2, true, asked{all: true}}, {3, true, asked{all: true, kill: true}}, {4, true, asked{all: true, kill: true}},
		{1, false, asked{all: true}}, {2, false, asked{all: true, kill: true}},
	}
	for _, c := range cases {
		s, hint := interrupt(c.n, c.tty)
		if got := (asked{s.Drain, s.All, s.Kill}); got != c.want || hint == "" {
			t.Errorf("SIGINT %d, tty %v: got %+v, %q, want %+v", c.n, c.tty, got, hint, c.want)
		}
	}
	for n, want := range []sched.StopRequested{{All: true, Why: "SIGTERM"}, {All: true, Kill: true, Why: "SIGTERM"}} {
		if got, _ := stopAll("SIGTERM", n+1); !reflect.DeepEqual(got, want) {
			t.Errorf("SIGTERM %d: got %+v, want %+v", n+1, got, want)
		}
	}
}

func TestNearestCommand(t *testing.T) {
	cases := map[string]string{
		"stauts": "status", "satus": "status", "paln": "plan", "plna": "plan", "chekc": "check", "gpsu": "gpus", "rnu": "run", "ruin": "run", "lgo": "log",
		"froget": "forget", "Status": "status", "dnoe": "done", "kill": "stop", "ps": "ls", "jobs": "", "x": "", "experiment": "", "train-1": "",
	}
	for word, want := range cases {
		if got := nearest(word); got != want {
			t.Errorf("nearest(%q) = %q, want %q", word, got, want)
		}
	}
}

func devices(models ...string) []gpu.Device {
	var devs []gpu.Device
	for i, m := range models {
		devs = append(devs, gpu.Device{Index: i, UUID: gpu.UUID(fmt.Sprintf("GPU-%c000", 'a'+i)), Name: m, Total: 24 * gpu.GiB})
	}
	return devs
}

func TestInheritedDevicesLimitTheManagedOnes(t *testing.T) {
	same, mixed := devices("A100", "A100", "A100"), devices("A100", "T4")
	cases := map[string]struct {
		in   inherited
		devs []gpu.Device
		ids  []string
		want string
		err  string
	}{
		"not set":           {inherited{}, same, nil, "", ""},
		"not set, gpu_ids":  {inherited{}, same, []string{"0-1"}, "0-1", ""},
		"indices":           {inherited{set: true, visible: "2,0"}, same, nil, "GPU-c000 GPU-a000", ""},
		"with gpu_ids":      {inherited{set: true, visible: "2,0"}, same, []string{"0-1"}, "GPU-a000", ""},
		"UUIDs":             {inherited{set: true, visible: "GPU-b"}, mixed, nil, "GPU-b000", ""},
		"ends at a bad one": {inherited{set: true, visible: "1,9,0"}, same, nil, "GPU-b000", ""},
		"none":              {inherited{set: true, visible: ""}, same, nil, "", "leaves no GPU"},
		"-1":                {inherited{set: true, visible: "-1"}, same, nil, "", "leaves no GPU"},
		"no overlap":        {inherited{set: true, visible: "0"}, same, []string{"1"}, "", "leaves no GPU of gpu_ids 1"},
		"mixed models":      {inherited{set: true, visible: "1"}, mixed, nil, "", "CUDA_DEVICE_ORDER"},
		"mixed, PCI order":  {inherited{set: true, visible: "1", pci: true}, mixed, nil, "GPU-b000", ""},
		"bad gpu_ids":       {inherited{}, same, []string{"7"}, "", "gpu_ids"},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			got, err := c.in.managed(c.devs, c.ids)
			if c.err != "" {
				if err == nil || !strings.Contains(err.Error(), c.err) || codeOf(err) != batches.ExitUsage {
					t.Fatalf("got %v, %v, want an error with %q", got, err, c.err)
				}
				return
			}
			if s := strings.Join(got, " "); err != nil || s != c.want {
				t.Errorf("got %q, %v, want %q", s, err, c.want)
			}
		})
	}
}

func TestUnitsOfTheCommandLine(t *testing.T) {
	times := map[string]time.Duration{"60": time.Minute, "90s": 90 * time.Second, "2d": 48 * time.Hour, "1d12h": 36 * time.Hour, "0": 0}
	for text, want := range times {
		var got timeFlag
		if err := got.UnmarshalText([]byte(text)); err != nil || time.Duration(got) != want {
			t.Errorf("time %q: got %v, %v, want %v", text, time.Duration(got), err, want)
		}
	}
	counts := map[string]countFlag{"2": {2, 2}, "2-4": {2, 4}, "0": {0, 0}}
	for text, want := range counts {
		var got countFlag
		if err := got.UnmarshalText([]byte(text)); err != nil || got != want {
			t.Errorf("count %q: got %v, %v, want %v", text, got, err, want)
		}
	}
	for _, bad := range []string{"", "x", "-1", "1.5", "4-2", "99999999999999999999"} {
		var d timeFlag
		var c countFlag
		var p percentFlag
		for what, err := range map[string]error{"count": c.UnmarshalText([]byte(bad)), "percent": p.UnmarshalText([]byte(bad))} {
			if err == nil {
				t.Errorf("%s %q was taken", what, bad)
			}
		}
		if err := d.UnmarshalText([]byte(bad)); err == nil {
			t.Errorf("time %q was taken", bad)
		}
	}
}

func TestLogoutKillsOnlyWhereLogindIsToldSo(t *testing.T) {
	session := "0::/user.slice/user-1000.slice/session-3.scope\n"
	cases := map[string]struct {
		cgroup   string
		settings []string
		want     bool
	}{
		"no word of it":    {session, []string{"[Login]\n#KillUserProcesses=yes\n"}, false},
		"yes":              {session, []string{"[Login]\nKillUserProcesses=yes\n"}, true},
		"the last counts":  {session, []string{"KillUserProcesses=yes", "KillUserProcesses = no"}, false},
		"outside sessions": {"0::/user.slice/user-1000.slice/user@1000.service/app.slice/run-1.scope\n", []string{"KillUserProcesses=yes"}, false},
	}
	for name, c := range cases {
		if got := killedAtLogout(c.cgroup, c.settings); got != c.want {
			t.Errorf("%s: got %v", name, got)
		}
	}
}
