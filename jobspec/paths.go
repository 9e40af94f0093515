package jobspec

import (
	"slices"

	"gpurun/jobspec/expand"
	"gpurun/jobspec/source"
)

// checkPaths reports unset variables in all paths of a job.
func (p *proto) checkPaths() {
	var list []*expand.Text
	list = append(list, p.WorkDir, p.Log, p.Stdout, p.Stderr)
	for i := range p.Outputs {
		list = append(list, &p.Outputs[i])
	}
	for i := range p.Inputs {
		list = append(list, &p.Inputs[i])
	}
	if p.Config != nil {
		list = append(list, &p.Config.Base, p.Config.Path)
	}
	for _, t := range slices.DeleteFunc(list, func(t *expand.Text) bool { return t == nil }) {
		if _, err := expand.Path(t.Raw); err != nil {
			p.src.Problem(t.Line, t.Col, "set it, or write the full path", "%q: %s", source.Clip(t.Raw), err)
		}
	}
}
