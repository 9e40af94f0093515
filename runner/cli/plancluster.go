package cli

import (
	"cmp"
	"fmt"
	"io"
	"strings"

	"gpurun/jobspec"
	"gpurun/runner/batches"
	"gpurun/runner/engine"
	"gpurun/runner/engine/cluster"
	"gpurun/runner/session"
	"gpurun/runner/terminal"
	"gpurun/state"
	"gpurun/state/schema"
)

// A submission is a group of jobs that are submitted with the same request, together with the
// cluster's answer.
type submission struct {
	cluster.Trial
	jobs    []int
	refused error  // why gpurun cannot submit them, or why the cluster would refuse them
	begins  string // when the cluster expects one of them to begin, or ""
}

// try asks the cluster about the request, and describes its answer. silent is true if the cluster
// gives no answer.
func (s *submission) try(name string, dialect cluster.Dialect) (answer string, silent bool) {
	begins, kind, err := s.Try(dialect)
	if err != nil && kind == cluster.Unclear {
		return name + " does not report whether it would accept them: " + err.Error(), true
	}
	s.begins, s.refused = begins, err
	switch {
	case err != nil && kind == cluster.Never:
		return name + " refuses them: " + err.Error(), false
	case err != nil:
		return name + " accepts no more jobs like these now, so gpurun would retry: " + err.Error(), false
	case begins != "":
		return fmt.Sprintf("%s accepts them (estimated start: %s)", name, begins), false
	}
	return name + " accepts them", false
}

// document returns the description of the submission for the plans of its jobs.
func (s *submission) document() *schema.Submission {
	d := &schema.Submission{Args: schema.List(s.Args), Limit: schema.Known(s.Limit.Seconds()), Begins: schema.Known(s.begins)}
	if s.refused != nil {
		d.Refused = schema.Known(s.refused.Error())
	}
	return d
}

// maxTried is the maximum number of submissions that the cluster is asked about.
const maxTried = 20

// printCluster prints the requests to the cluster and its answers.
func (p *planning) printCluster(to io.Writer) (impossible []jobspec.Problem) {
	problems, notes := session.CheckEngine(p.batch, p.runs, p.Sim != "", false)
	if len(problems) > 0 {
		return problems
	}
	name, dialect := p.batch.Settings.Engine, batches.EngineOf(p.batch).(cluster.Kind).Dialect
	printLines(to, notes)
	p.there = p.submissions(dialect)
	lacking := session.LacksCommand(p.batch, p.runs)
	silent := len(lacking) > 0
	for i, s := range p.there {
		if i == 0 {
			fmt.Fprintf(to, "on %s, gpurun submits jobs with the same requirements together:\n", name)
		}
		request, answer := cmp.Or(strings.Join(s.Args, " "), "no requests ("+name+" applies its defaults)"), ""
		switch {
		case s.refused != nil:
			request, answer = "nothing", "cannot submit them: "+s.refused.Error()
		case !silent && i < maxTried:
			answer, silent = s.try(name, dialect)
		}
		fmt.Fprintf(to, "  %s (%s): %s\n", state.Count(len(s.jobs), "job"), terminal.CleanText(p.batch.Jobs[s.jobs[0]].Name), terminal.CleanText(request))
		if s.Limit > 0 {
			fmt.Fprintf(to, "      %s may end them after %s, unless gpurun does so first\n", name, terminal.Duration(s.Limit))
		}
		if answer != "" {
			fmt.Fprintln(to, "      "+terminal.CleanText(answer))
		}
	}
	return lacking
}

// submissions returns the jobs that would run, grouped by request, in the order of each group's
// first job.
func (p *planning) submissions(dialect cluster.Dialect) (all []*submission) {
	byArgs := map[string]*submission{}
	for id := range p.batch.Jobs {
		if !p.runs(id) {
			continue
		}
		j := &p.batch.Jobs[id]
		r := p.Core.Request(id)
		trial, err := cluster.Demands(dialect, &engine.Launch{
			Identity: engine.Identity{Grace: j.Spec.Grace}, Timeout: j.Spec.Timeout, TimeoutSignal: (*engine.TimeoutSignal)(&j.Spec.AtTimeout),
			Request: &engine.Request{
				GPUs: r.Min, Models: r.Models.List(), GPUMemory: r.Memory, CPUs: j.Spec.CPUs, Memory: j.Spec.Memory, Priority: j.Spec.Priority,
				Options: j.Spec.Cluster, Limit: j.Spec.ClusterTime,
			},
		})
		key := fmt.Sprint(strings.Join(trial.Args, "\x00"), err)
		s := byArgs[key]
		if s == nil {
			s = &submission{Trial: trial, refused: err}
			byArgs[key] = s
			all = append(all, s)
		}
		s.jobs = append(s.jobs, id)
	}
	return all
}
