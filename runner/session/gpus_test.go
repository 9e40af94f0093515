package session

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"gpurun/gpu"
	"gpurun/jobspec"
	"gpurun/runner/batches"
)

// With a poll interval of two minutes, readings that far apart still count as continuous.
func TestRulesAllowForSlowPoll(t *testing.T) {
	const poll = 2 * time.Minute
	devs := []gpu.Device{{UUID: "GPU-a", Total: 24 * gpu.GiB}}
	rules, err := RulesOf(jobspec.Settings{Poll: poll, MinGPUs: -1, MaxGPUs: -1}, devs, HostRules{}, true)
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
		t.Errorf("the job does not fit on GPU 0: %s", v[0].Reason)
	}
}

func devices(models ...string) []gpu.Device {
	var devs []gpu.Device
	for i, m := range models {
		devs = append(devs, gpu.Device{Index: i, UUID: gpu.UUID(fmt.Sprintf("GPU-%c000", 'a'+i)), Name: m, Total: 24 * gpu.GiB})
	}
	return devs
}

func TestInheritedVariableLimitsDevices(t *testing.T) {
	same, mixed := devices("A100", "A100", "A100"), devices("A100", "T4")
	cases := map[string]struct {
		in   Inherited
		devs []gpu.Device
		ids  []string
		want string
		err  string
	}{
		"not set":          {Inherited{}, same, nil, "", ""},
		"not set, gpu_ids": {Inherited{}, same, []string{"0-1"}, "0-1", ""},
		"indices":          {Inherited{set: true, visible: "2,0"}, same, nil, "GPU-c000 GPU-a000", ""},
		"with gpu_ids":     {Inherited{set: true, visible: "2,0"}, same, []string{"0-1"}, "GPU-a000", ""},
		"UUIDs":            {Inherited{set: true, visible: "GPU-b"}, mixed, nil, "GPU-b000", ""},
		"stops at invalid": {Inherited{set: true, visible: "1,9,0"}, same, nil, "GPU-b000", ""},
		"none":             {Inherited{set: true, visible: ""}, same, nil, "", "leaves no GPU"},
		"-1":               {Inherited{set: true, visible: "-1"}, same, nil, "", "leaves no GPU"},
		"no overlap":       {Inherited{set: true, visible: "0"}, same, []string{"1"}, "", "leaves no GPU of gpu_ids 1"},
		"mixed models":     {Inherited{set: true, visible: "1"}, mixed, nil, "", "CUDA_DEVICE_ORDER"},
		"mixed, PCI order": {Inherited{set: true, visible: "1", pci: true}, mixed, nil, "GPU-b000", ""},
		"bad gpu_ids":      {Inherited{}, same, []string{"7"}, "", "gpu_ids"},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			got, err := c.in.Managed(c.devs, c.ids)
			if c.err != "" {
				if err == nil || !strings.Contains(err.Error(), c.err) || !errors.As(err, new(*batches.Failure)) {
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

func TestLogoutKillsOnlyWithKillUserProcesses(t *testing.T) {
	session := "0::/user.slice/user-1000.slice/session-3.scope\n"
	cases := map[string]struct {
		cgroup   string
		settings []string
		want     bool
	}{
		"not configured":   {session, []string{"[Login]\n#KillUserProcesses=yes\n"}, false},
		"yes":              {session, []string{"[Login]\nKillUserProcesses=yes\n"}, true},
		"last value wins":  {session, []string{"KillUserProcesses=yes", "KillUserProcesses = no"}, false},
		"outside sessions": {"0::/user.slice/user-1000.slice/user@1000.service/app.slice/run-1.scope\n", []string{"KillUserProcesses=yes"}, false},
	}
	for name, c := range cases {
		if got := killedAtLogout(c.cgroup, c.settings); got != c.want {
			t.Errorf("%s: got %v, want %v", name, got, c.want)
		}
	}
}
