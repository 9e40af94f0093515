package cli

import (
	"fmt"
	"io"
	"strings"

	"gpurun/jobspec"
	"gpurun/runner/engine"
	"gpurun/runner/engine/cluster"
	"gpurun/runner/terminal"
)

// A submission is a class of jobs that are submitted together.
type submission struct {
	cluster.Trial
	jobs  int
	first string // name of one
	err   error  // why they cannot be submitted
}

// asks returns what the cluster is asked for.
func (s *submission) asks(name string) string {
	switch {
	case s.err != nil:
		return "nothing"
	case len(s.Args) == 0:
		return "what " + name + " gives a job that asks for nothing"
	}
	return strings.Join(s.Args, " ")
}

// maxTried bounds the classes about which the cluster is asked.
const maxTried = 20

// lookThere shows what a cluster would get, and what it says to that.
func (p *planning) lookThere(to io.Writer) (impossible []jobspec.Problem) {
	problems, notes := checkEngine(p.batch, p.runs, p.Sim != "", false)
	if len(problems) > 0 || to == io.Discard {
		return problems
	}
	name, words := p.batch.Settings.Engine, wordsOf(engineOf(p.batch))
	for _, n := range notes {
		fmt.Fprintln(to, n)
	}
	asks := true
	for i, s := range p.submissions(words) {
		if i == 0 {
			fmt.Fprintf(to, "on %s, jobs that ask for the same are submitted together:\n", name)
		}
		fmt.Fprintf(to, "  %s (%s): %s\n", count(s.jobs, "job"), terminal.CleanText(s.first), terminal.CleanText(s.asks(name)))
		if s.Limit > 0 {
			fmt.Fprintf(to, "      may be ended by %s after %s, if gpurun has not\n", name, terminal.Duration(s.Limit))
		}
		switch {
		case s.err != nil:
			fmt.Fprintln(to, "      cannot be submitted: "+terminal.CleanText(s.err.Error()))
			continue
		case !asks || i >= maxTried:
			continue
		}
		begins, known, err := s.Ask(words)
		switch {
		case !known:
			fmt.Fprintf(to, "      %s does not say whether it would take them: %s\n", name, terminal.CleanText(err.Error()))
			asks = false
		case err != nil:
			fmt.Fprintf(to, "      %s refuses them: %s\n", name, terminal.CleanText(err.Error()))
		case begins == "":
			fmt.Fprintf(to, "      %s takes them\n", name)
		default:
			fmt.Fprintf(to, "      %s takes them, and estimates that one would begin %s\n", name, begins)
		}
	}
	return nil
}

// submissions returns the classes of the jobs that would run, in the order of their first.
func (p *planning) submissions(words cluster.Words) (all []*submission) {
	byArgs := map[string]*submission{}
	for id := range p.batch.Jobs {
		if !p.runs(id) {
			continue
		}
		j := &p.batch.Jobs[id]
		r := p.core.Request(id)
		trial, err := cluster.Demands(words, p.batch.Settings.Cluster, &engine.Launch{
			Identity: engine.Identity{Grace: j.Spec.Grace}, Timeout: j.Spec.Timeout, Notice: (*engine.Notice)(&j.Spec.AtTimeout),
			Ask: &engine.Ask{GPUs: r.Min, Models: r.Models.List(), GPUMemory: r.Memory, CPUs: j.Spec.CPUs, Memory: j.Spec.Memory, Priority: j.Spec.Priority},
		})
		key := fmt.Sprint(strings.Join(trial.Args, "\x00"), err)
		s := byArgs[key]
		if s == nil {
			s = &submission{Trial: trial, first: j.Name, err: err}
			byArgs[key] = s
			all = append(all, s)
		}
		s.jobs++
	}
	return all
}
