package session

import (
	"bufio"
	"cmp"
	"fmt"
	"os"
	"strings"

	"golang.org/x/term"

	"gpurun/runner/batches"
)

// muchRedone is how many GPU hours of successes may rerun without asking.
const muchRedone = 1.0

// confirm reports the successes that would rerun although nobody asked for that with
// --force or forget, if that costs more than a little, and asks on a terminal. An answer
// other than yes ends the command.
func (r *Run) confirm() error {
	pasts := batches.Formers(r.Batch, r.State.History(), r.core)
	jobs, first, hours := 0, 0, 0.0
	for id := range r.Batch.Jobs {
		rec := cmp.Or(r.core.Redoes(id), pasts[id].Was)
		if rec == nil {
			continue
		}
		if jobs++; jobs == 1 {
			first = id
		}
		hours += rec.Seconds / 3600 * float64(len(rec.GPUs))
	}
	if m := r.Moved(r.Batch, r.State.History(), r.Runs); m.Jobs > 0 {
		r.Warn(m.Words())
		r.Hint(m.Cure())
		return r.redo(m.Hours)
	}
	if hours <= muchRedone {
		return nil
	}
	j, reason := &r.Batch.Jobs[first], r.core.Verdict(first).Reason
	if p, ok := pasts[first]; ok {
		reason = p.Reason(reason, r.Batch, j)
	}
	r.Warn(fmt.Sprintf("rerunning %s that succeeded, %.1f GPU hours of work (%s: %s)", batches.Count(jobs, "job"), hours, j.Name, reason))
	r.Hint("gpurun plan shows why for each; gpurun done JOB… keeps a result")
	return r.redo(hours)
}

// redo asks whether successes that took so many GPU hours may run again, if that is much.
func (r *Run) redo(hours float64) error {
	if hours <= muchRedone {
		return nil
	}
	if r.Detached != nil && !r.Yes {
		return &batches.Failure{Code: batches.ExitFailed, Text: "nothing was started: with -d there is nobody to ask", Hint: "-y answers yes"}
	}
	if r.Yes || !r.OutTTY || !term.IsTerminal(int(os.Stdin.Fd())) {
		return nil
	}
	fmt.Fprint(r.Out, "rerun them? [y/N] ")
	answer, _ := bufio.NewReader(os.Stdin).ReadString('\n')
	switch strings.ToLower(strings.TrimSpace(answer)) {
	case "y", "yes":
		return nil
	}
	return &batches.Failure{Code: batches.ExitFailed, Text: "nothing was started", Hint: "-y answers yes"}
}
