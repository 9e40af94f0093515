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
	"gpurun/runner/batches"
	"gpurun/runner/sched"
	"gpurun/runner/session"
	"gpurun/runner/terminal"
	"gpurun/state"
)

// A requestGroup is a GPU request that several jobs share.
type requestGroup struct {
	req   gpu.Request
	runs  int    // number of runs from which the memory to request was learned, or 0
	first string // name of the first of those jobs in the file
	jobs  int
}

// maxRequestGroups is how many request groups plan shows.
const maxRequestGroups = 5

// requestGroups returns the first few requests of the jobs that would run. more is the number of jobs with
// other requests.
func requestGroups(b *jobspec.Batch, core *sched.Core, runs func(id int) bool) (list []*requestGroup, more int) {
	known := map[gpu.Request]*requestGroup{}
	for id := range b.Jobs {
		j := &b.Jobs[id]
		if j.Spec.Request.Min == 0 || !runs(id) {
			continue
		}
		req := core.Request(id)
		w := known[req]
		if w == nil && len(list) < maxRequestGroups {
			_, learned := core.Learned(id)
			w = &requestGroup{req: req, runs: learned, first: j.Name}
			known[req] = w
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

// printGPUs prints which GPUs the jobs could use now, and returns the jobs that no GPU here could ever
// run. If the GPUs cannot be read, the plan omits them.
func (p *planning) printGPUs(to io.Writer) (impossible []jobspec.Problem) {
	if batches.EngineOf(p.batch).Abilities().Places {
		return p.printCluster(to)
	}
	if !session.WantsGPU(p.batch, p.runs) {
		return nil
	}
	ctx, cancel := context.WithTimeout(context.Background(), session.OpenLimit)
	defer cancel()
	answered := p.announceDriverWait(p.Sim != "")
	prober, err := p.source(false).Open(ctx, zerolog.Nop())
	if err == nil {
		defer prober.Close()
		impossible, err = p.printGPUsOf(ctx, to, prober)
	}
	answered()
	if err != nil {
		p.unread = err
		fmt.Fprintln(to, "did not check which GPUs the jobs could use: "+terminal.CleanText(err.Error()))
	}
	return impossible
}

func (p *planning) printGPUsOf(ctx context.Context, to io.Writer, prober probe.Prober) ([]jobspec.Problem, error) {
	rules := session.HostRulesOf(prober)
	p.printHostNotes(rules)
	pool, impossible, err := session.PoolFor(p.batch, prober, rules, p.Sim != "", true, p.runs)
	if f := (*batches.Failure)(nil); errors.As(err, &f) { // a run would refuse these settings too
		impossible, err = []jobspec.Problem{{Text: f.Text, Hint: f.Hint}}, nil
	}
	if err != nil || len(impossible) > 0 {
		return impossible, err
	}
	p.seen = session.Observe(ctx, prober, rules, session.ReadOnlyClaimsOf(prober), p.Warn)
	if p.seen.Err != "" {
		return nil, errors.New("cannot read the GPUs: " + p.seen.Err)
	}
	pool.Observe(p.seen)
	p.pool = pool
	p.Core.Use(pool)
	fmt.Fprintln(to, "GPUs now, from one reading:")
	list, more := requestGroups(p.batch, p.Core, p.runs)
	for _, w := range list {
		text := sched.DescribeVerdicts(w.req, w.runs, pool.Admit(p.seen.At, w.req))
		fmt.Fprintf(to, "  %s: %s\n", jobWords([]string{w.first}, 1, w.jobs), terminal.CleanText(text))
	}
	if more > 0 {
		fmt.Fprintf(to, "  and %s with other requests\n", state.Count(more, "job"))
	}
	if words := rules.Endless(p.batch, p.runs); words != "" {
		fmt.Fprintln(to, words)
	}
	return nil, nil
}
