package runner

import (
	"context"
	"fmt"
	"slices"

	"gpurun/gpu"
	"gpurun/runner/sched"
)

// A claimer is an engine whose attempts show other runs of the host what they
// hold, and that sees what those hold. Its methods are called from goroutines
// beside the loop.
type claimer interface {
	// Claim publishes a claim, then returns what others hold; nil where no claims
	// are made. After an error nothing is claimed.
	Claim(ctx context.Context, uniID, job string, g gpu.Grant) (others []gpu.Claim, warnings []string, err error)
	// Withdraw ends the claim of an attempt that is not launched.
	Withdraw(uniID string)
	// Yield gives up what the claim of an attempt that is over still holds of these
	// devices, so that they can pass to the next one without a gap.
	Yield(uniID string, ids []gpu.UUID)
	// Others are the claims of other runs, with what of them is in use by readings.
	Others(ctx context.Context, readings []gpu.Reading) (others []gpu.Claim, warnings []string)
}

// A rival is why a grant could not be claimed now: no failure of the job's.
type rival struct{ error }

// warned is an event with what there is to say beside it.
type warned struct {
	sched.Event
	event    sched.Event
	warnings []string
}

// withWarnings is ev, with what a person should know.
func withWarnings(ev sched.Event, warnings []string) sched.Event {
	if len(warnings) == 0 {
		return ev
	}
	return warned{Event: ev, event: ev, warnings: warnings}
}

// whose says of each process in a reading which attempt it belongs to. What a gpurun
// inside a job has claimed for its own jobs is not that job's.
func (l *loop) whose(s *gpu.Snapshot) {
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

// nested reports whether a gpurun inside an attempt has claimed a device that is not
// the attempt's.
func (l *loop) nested(uniID string, id gpu.UUID, claims []gpu.Claim) bool {
	if at := l.live[uniID]; at == nil || slices.Contains(at.grant.UUIDs, id) {
		return false
	}
	return slices.ContainsFunc(claims, func(c gpu.Claim) bool {
		return c.UUID == id && c.PID > 0 && l.Engine.Attempt(c.PID) == uniID
	})
}

// claim shows others what an attempt was granted, and says what they hold; nil
// for one without GPUs.
func (l *loop) claim(uniID, job string, g gpu.Grant) ([]gpu.Claim, []string, error) {
	c, ok := l.Engine.(claimer)
	if !ok || len(g.UUIDs) == 0 {
		return nil, nil, nil
	}
	others, warnings, err := c.Claim(l.ctx, uniID, job, g)
	if isCramped(err) {
		return nil, warnings, err
	}
	if err != nil {
		// Nothing starts without its claim: it is tried again, as after a lost race.
		return nil, append(warnings, fmt.Sprintf("claims: %v", err)), rival{err}
	}
	return others, warnings, nil
}

// yield gives up the claim of an attempt that is over.
func (l *loop) yield(a sched.Yield) {
	if c, ok := l.Engine.(claimer); ok {
		c.Yield(a.UniID, a.UUIDs)
	}
}

// withdraw ends the claim of an attempt that will not be launched.
func (l *loop) withdraw(uniID string, g gpu.Grant) {
	if c, ok := l.Engine.(claimer); ok && len(g.UUIDs) > 0 {
		c.Withdraw(uniID)
	}
}
