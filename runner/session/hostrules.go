package session

import (
	"fmt"
	"os"

	"gpurun/gpu"
	"gpurun/gpu/hostrules"
	"gpurun/gpu/probe"
	"gpurun/runner"
	"gpurun/state/host"
)

// HostRulesAt is the path of the host rules. Tests replace it.
var HostRulesAt = hostrules.Etc

// HostRules holds the rules of this host, and reads them again on request.
type HostRules struct {
	*gpu.HostRules
	read     runner.HostRules
	Warnings []string
	blind    bool // this user's UID on the host is unknown, so their processes cannot be identified
}

// HostRulesOf reads the host rules for a prober's devices. Private simulated devices have none. If
// p is nil, the devices in the rules are not checked.
func HostRulesOf(p probe.Prober) (h HostRules) {
	if p != nil && p.Private() {
		h.HostRules = gpu.NoHostRules()
		h.read = func([]int) (*gpu.HostRules, []string) { return nil, nil }
		return h
	}
	reader := hostrules.NewReader(HostRulesAt)
	h.read = func(users []int) (*gpu.HostRules, []string) {
		return reader.Read(append(users, host.CurrentUID())...)
	}
	h.HostRules, h.Warnings = h.read(nil)
	if host.HostUID(os.Getuid()) < 0 {
		h.blind = true
		h.Warnings = append(h.Warnings, "cannot translate the uids of this container (/proc/self/uid_map): jobs avoid GPUs with any other process (others: avoid)")
	}
	if p != nil {
		h.mismatches(p.Devices())
	}
	return h
}

// mismatches warns about devices in the rules that this host does not have.
func (h *HostRules) mismatches(devs []gpu.Device) {
	check := func(key string, ids []string) {
		if _, err := gpu.Select(devs, ids); err != nil {
			h.Warnings = append(h.Warnings, fmt.Sprintf("%s: %s: %v", h.File, key, err))
		}
	}
	check("devices", h.Devices)
	for _, hours := range h.Hours {
		check("hours", hours.Devices)
	}
}
