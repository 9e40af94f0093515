package local

import (
	"gpurun/gpu"
	"gpurun/runner/engine/local/procs"
)

// fillTaken finds out how much of what others claim is in use by now: what is
// used on a device by processes below a claim's holder. Where one holder has
// several claims on a device, the uni_id in a process's environment tells them
// apart, if it may be read; and also where a claim's processes do not hang on its
// holder. What cannot be told stays 0: all of the claim is then still promised.
func fillTaken(claims []gpu.Claim, readings []gpu.Reading) {
	holders := map[int]bool{}
	for _, c := range claims {
		if c.PID > 0 {
			holders[c.PID] = true
		}
	}
	if len(holders) == 0 {
		return
	}
	for i := range readings {
		r := &readings[i]
		for _, p := range r.Processes {
			if p.Memory <= 0 {
				continue
			}
			if c := claimOf(claims, r.UUID, above(p.PID, holders), p); c != nil {
				c.Taken = min(c.Taken+p.Memory, c.Memory)
			}
		}
	}
}

// above is the holder that a process descends from, or 0.
func above(pid int, holders map[int]bool) int {
	for range 64 {
		p, ok := procs.One(pid)
		if !ok || p.Parent <= 1 {
			return 0
		}
		if pid = p.Parent; holders[pid] {
			return pid
		}
	}
	return 0
}

// claimOf is the claim on a device that a process below a holder (0: below none)
// belongs to, or nil.
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
