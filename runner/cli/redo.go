package cli

import (
	"bufio"
	"cmp"
	"fmt"
	"os"
	"strings"

	"golang.org/x/term"

	"gpurun/state"
)

// muchRedone is how many GPU hours of successes may rerun without asking.
const muchRedone = 1.0

// redone counts successes that a run would repeat although nobody asked for that with
// --force or forget, and their GPU hours.
func (r *run) redone(pasts map[int]past) (jobs, first int, hours float64) {
	for id := range r.batch.Jobs {
		if rec := cmp.Or(r.core.Redoes(id), pasts[id].was); rec != nil {
			if jobs++; jobs == 1 {
				first = id
			}
			hours += gpuHours(rec)
		}
	}
	return jobs, first, hours
}

func gpuHours(r *state.Record) float64 { return r.Seconds / 3600 * float64(len(r.GPUs)) }

// confirm reports the successes that would rerun if that costs more than a little, and
// asks on a terminal. An answer other than yes ends the command.
func (r *run) confirm() error {
	_, _, most := r.redone(nil)
	_, gone := r.core.Replaced(maxReplaced)
	for _, rec := range gone {
		most += gpuHours(rec)
	}
	if most <= muchRedone {
		return nil
	}
	pasts := pasts(r.batch, r.state.History(), r.core)
	jobs, first, hours := r.redone(pasts)
	if hours <= muchRedone {
		return nil
	}
	j, reason := &r.batch.Jobs[first], r.core.Verdict(first).Reason
	if p, ok := pasts[first]; ok {
		reason = p.reason(reason, r.batch, j)
	}
	r.warn(fmt.Sprintf("rerunning %s that succeeded, %.1f GPU hours of work (%s: %s)", count(jobs, "job"), hours, j.Name, reason))
	r.hint("gpurun plan shows why for each; gpurun done JOB… keeps a result")
	if r.cmd.Yes || !r.outTTY || !term.IsTerminal(int(os.Stdin.Fd())) {
		return nil
	}
	fmt.Fprint(r.out, "rerun them? [y/N] ")
	answer, _ := bufio.NewReader(os.Stdin).ReadString('\n')
	switch strings.ToLower(strings.TrimSpace(answer)) {
	case "y", "yes":
		return nil
	}
	return &failure{code: exitFailed, text: "nothing was started", hint: "-y answers yes"}
}
