package cli

import (
	"context"
	"errors"
	"fmt"
	"io"

	"github.com/rs/zerolog"

	"gpurun/gpu"
	"gpurun/gpu/probe"
	"gpurun/jobspec"
	"gpurun/runner/sched"
	"gpurun/runner/terminal"
)

// A want is a GPU request that some jobs have in common.
type want struct {
	req   gpu.Request
	first string // the first such job in the file
	jobs  int
}

// maxWants bounds how many wants plan shows.
const maxWants = 5

// wants returns the first few requests of the jobs that would run; more is how many
// jobs have yet other requests.
func wants(b *jobspec.Batch, runs func(id int) bool) (list []*want, more int) {
	known := map[gpu.Request]*want{}
	for id := range b.Jobs {
		j := &b.Jobs[id]
		if j.Spec.Request.Min == 0 || !runs(id) {
			continue
		}
		w := known[j.Spec.Request]
		if w == nil && len(list) < maxWants {
			w = &want{req: j.Spec.Request, first: j.Name}
			known[w.req] = w
			list = append(list, w)
		}
		if w == nil {
			more++
			continue
		}
		w.jobs++
	}
	return list, more
}

func (w *want) who() string {
	if w.jobs == 1 {
		return w.first
	}
	return fmt.Sprintf("%s and %d more", w.first, w.jobs-1)
}

// judge prints which GPUs the jobs of a plan could use now, and returns the jobs that
// no GPU here could ever run. If the GPUs cannot be read, the plan does without.
func (c *planCmd) judge(to io.Writer, a *app, b *jobspec.Batch, runs func(id int) bool) (impossible []jobspec.Problem) {
	if !wantsGPU(b, runs) {
		return nil
	}
	ctx, cancel := context.WithTimeout(context.Background(), openLimit)
	defer cancel()
	answered := a.unlessSoon(waitingForDriver)
	p, err := a.openProber(ctx, &c.gpuFlags, zerolog.Nop())
	if err == nil {
		defer p.Close()
		impossible, err = c.judgeBy(ctx, to, a, b, p, runs)
	}
	answered()
	if err != nil {
		fmt.Fprintln(to, "not checked here: which GPUs the jobs could use: "+terminal.CleanText(err.Error()))
	}
	return impossible
}

func (c *planCmd) judgeBy(ctx context.Context, to io.Writer, a *app, b *jobspec.Batch, p probe.Prober, runs func(id int) bool) ([]jobspec.Problem, error) {
	rules := hostRulesFor(p)
	a.tellHost(rules)
	pool, impossible, err := poolFor(b, p, rules, c.Sim != "", true, runs)
	if err != nil || len(impossible) > 0 {
		return impossible, err
	}
	snap := a.observed(ctx, p, rules, spectatorOf(p))
	if snap.Err != "" {
		return nil, errors.New("the GPUs cannot be read: " + snap.Err)
	}
	pool.Observe(snap)
	fmt.Fprintln(to, "GPUs now, by one reading:")
	list, more := wants(b, runs)
	for _, w := range list {
		text := sched.Judged(w.req, pool.Admit(snap.At, w.req))
		fmt.Fprintf(to, "  %s: %s\n", w.who(), terminal.CleanText(text))
	}
	if more > 0 {
		fmt.Fprintf(to, "  and %s with other requests\n", count(more, "job"))
	}
	if limit := rules.TimeLimit(); limit != "" && endless(b, runs) {
		fmt.Fprintln(to, "jobs without a timeout are stopped by "+limit)
	}
	return nil, nil
}
