package runner

import (
	"fmt"
	"slices"

	"gpurun/gpu"
	"gpurun/runner/sched"
)

// A rival is why a grant could not be claimed now. The job has not failed.
type rival struct{ error }

// warned is an event that comes with warnings.
type warned struct {
	sched.Event
	event    sched.Event
	warnings []string
}

// withWarnings returns ev, wrapped with warnings if there are any.
func withWarnings(ev sched.Event, warnings []string) sched.Event {
	if len(warnings) == 0 {
		return ev
	}
	return warned{Event: ev, event: ev, warnings: warnings}
}

// whose sets which attempt each process in a reading belongs to. A device that a
// gpurun inside a job has claimed for its own jobs does not count as that job's.
func (l *loop) whose(s *gpu.Observation) {
	for i := range s.Readings {
		for k := range s.Readings[i].Processes {
			p := &s.Readings[i].Processes[k]
			if p.Attempt == "" {
				p.Attempt = l.Engine.Attempt(p.PID)
			}
			if p.Attempt != "" && l.nested(p.Attempt, s.Readings[i].UUID, s.Claims) {
				p.Attempt = ""
			}
		}
	}
}

// nested reports whether a gpurun inside an attempt has claimed a device that the
// attempt was not granted.
func (l *loop) nested(uniID string, id gpu.UUID, claims []gpu.Claim) bool {
	if at := l.live[uniID]; at == nil || slices.Contains(at.grant.UUIDs, id) {
		return false
	}
	return slices.ContainsFunc(claims, func(c gpu.Claim) bool {
		return c.UUID == id && c.PID > 0 && l.Engine.Attempt(c.PID) == uniID
	})
}

// claim publishes what an attempt was granted and returns what others hold; nil for
// an attempt without GPUs.
func (l *loop) claim(uniID, job string, g gpu.Grant) ([]gpu.Claim, []string, error) {
	if len(g.UUIDs) == 0 {
		return nil, nil, nil
	}
	others, warnings, err := l.Engine.Claim(l.ctx, uniID, job, g)
	if isCramped(err) {
		return nil, warnings, err
	}
	if err != nil {
		// Nothing starts without a claim. It is retried, as after a lost race.
		return nil, append(warnings, fmt.Sprintf("claims: %v", err)), rival{err}
	}
	return others, warnings, nil
}

// withdraw ends the claim of an attempt that will not be launched.
func (l *loop) withdraw(uniID string, g gpu.Grant) {
	if len(g.UUIDs) > 0 {
		l.Engine.Withdraw(uniID)
	}
}
