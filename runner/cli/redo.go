package cli

import (
	"bufio"
	"fmt"
	"os"
	"strings"

	"golang.org/x/term"

	"gpurun/runner/terminal"
)

// muchRedone is how many GPU hours of successes may rerun without asking.
const muchRedone = 1.0

// redone counts successes that a run would repeat although nobody asked for that with
// --force or forget.
type redone struct {
	jobs  int
	hours float64 // of GPUs
	first int     // a job
}

func (r *run) redone(pasts map[int]past) redone {
	d := redone{first: -1}
	for id := range r.batch.Jobs {
		rec := r.core.Redoes(id)
		if rec == nil {
			rec = pasts[id].rec
		}
		if rec == nil {
			continue
		}
		d.jobs++
		d.hours += gpuHours(rec)
		if d.first < 0 {
			d.first = id
		}
	}
	return d
}

// confirm reports the successes that would rerun if that costs more than a little, and
// asks on a terminal. An answer other than yes ends the command.
func (r *run) confirm() error {
	pasts := r.nearest(r.batch, r.core, muchRedone)
	d := r.redone(pasts)
	if d.hours <= muchRedone {
		return nil
	}
	reason := r.core.Verdict(d.first).Reason
	if p, ok := pasts[d.first]; ok {
		reason = p.since(r.batch, &r.batch.Jobs[d.first])
	} else if words := r.changes(r.batch, r.core)[d.first]; words != "" {
		reason += ": " + words
	}
	name := terminal.CleanText(r.batch.Jobs[d.first].Name)
	r.warn(fmt.Sprintf("rerunning %s that succeeded, %.1f GPU hours of work (%s: %s)", count(d.jobs, "job"), d.hours, name, terminal.CleanText(reason)))
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
