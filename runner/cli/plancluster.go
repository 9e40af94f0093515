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

// A submission is a class of jobs that are submitted with the same request, and the cluster's
// answer.
type submission struct {
	cluster.Trial
	jobs    []int
	err     error  // why they cannot be submitted
	refused error  // why the cluster would refuse them
	later   bool   // the cluster may accept them at another time
	takes   bool   // the cluster would accept them
	begins  string // the cluster's estimate of when one would begin, or ""
}

// requestText describes the request to the cluster.
func (s *submission) requestText(name string) string {
	switch {
	case s.err != nil:
		return "nothing"
	case len(s.Args) == 0:
		return "no requests (" + name + " applies its defaults)"
	}
	return strings.Join(s.Args, " ")
}

// answerText describes the cluster's answer; "" if it is unknown.
func (s *submission) answerText(name string) string {
	switch {
	case s.err != nil:
		return "cannot submit them: " + s.err.Error()
	case s.later:
		return name + " accepts no more jobs like these now, so gpurun would retry: " + s.refused.Error()
	case s.refused != nil:
		return name + " refuses them: " + s.refused.Error()
	case s.begins != "":
		return fmt.Sprintf("%s accepts them (estimated start: %s)", name, s.begins)
	case s.takes:
		return name + " accepts them"
	}
	return ""
}

// document returns the part of the plan that belongs to its jobs.
func (s *submission) document() *schema.Submission {
	d := &schema.Submission{Args: schema.List(s.Args), Limit: schema.Known(s.Limit.Seconds()), Begins: schema.Known(s.begins)}
	if err := cmp.Or(s.refused, s.err); err != nil {
		d.Refused = schema.Known(err.Error())
	}
	return d
}

// maxTried is the most classes that the cluster is asked about.
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
		fmt.Fprintf(to, "  %s (%s): %s\n", state.Count(len(s.jobs), "job"), terminal.CleanText(p.batch.Jobs[s.jobs[0]].Name), terminal.CleanText(s.requestText(name)))
		if s.Limit > 0 {
			fmt.Fprintf(to, "      %s may end them after %s, unless gpurun does so first\n", name, terminal.Duration(s.Limit))
		}
		if s.err == nil && !silent && i < maxTried {
			begins, refused, err := s.Try(dialect)
			if silent = err != nil && refused == cluster.Unclear; silent {
				fmt.Fprintf(to, "      %s does not report whether it would accept them: %s\n", name, terminal.CleanText(err.Error()))
			} else {
				s.begins, s.refused, s.takes, s.later = begins, err, err == nil, err != nil && refused != cluster.Never
			}
		}
		if text := s.answerText(name); text != "" {
			fmt.Fprintln(to, "      "+terminal.CleanText(text))
		}
	}
	return lacking
}

// submissions returns the classes of the jobs that would run, in the order of their first jobs.
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
			s = &submission{Trial: trial, err: err}
			byArgs[key] = s
			all = append(all, s)
		}
		s.jobs = append(s.jobs, id)
	}
	return all
}
