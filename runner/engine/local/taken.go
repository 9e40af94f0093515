package local

import (
	"slices"

	"gpurun/gpu"
	"gpurun/runner/engine/procs"
)

// fillTaken sets the Taken field of each claim to the part of it that is already in use: the memory
// that descendants of the claim's holder use on the device. If a holder has several claims on a
// device, or a claim's processes do not descend from its holder, the uni_id in a process's
// environment decides, if it can be read. Otherwise Taken stays 0, so all of the claim still counts
// as promised.
func fillTaken(claims []gpu.Claim, readings []gpu.Reading) {
	if len(claims) == 0 {
		return
	}
	isHolder := func(pid int) bool { return slices.ContainsFunc(claims, func(c gpu.Claim) bool { return c.PID == pid }) }
	for i := range readings {
		r := &readings[i]
		for _, p := range r.Processes {
			if p.Memory <= 0 {
				continue
			}
			if c := claimOf(claims, r.UUID, ancestor(p.PID, isHolder), p); c != nil {
				c.Taken = min(c.Taken+p.Memory, c.Memory)
			}
		}
	}
}

// claimOf returns the claim on a device that process p belongs to, or nil. holder is the ancestor
// of p that holds claims, or 0 if there is none.
func claimOf(claims []gpu.Claim, id gpu.UUID, holder int, p gpu.Process) *gpu.Claim {
	var found *gpu.Claim
	several := false
	for i := range claims {
		if c := &claims[i]; c.UUID == id && c.PID == holder && holder != 0 {
			several = several || found != nil
			found = c
		}
	}
	if found != nil && !several {
		return found
	}
	uniID := procs.UniID(p.PID)
	for i := range claims {
		if c := &claims[i]; c.UUID == id && (c.PID == holder || found == nil) && uniID != "" && c.Attempt == uniID {
			return c
		}
	}
	return nil
}
