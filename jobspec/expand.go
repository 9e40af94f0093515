package jobspec

import (
	"slices"

	"gpurun/jobspec/expand"
)

// expand makes the jobs of one proto.
func (f *fileJobs) expand(p *proto) {
	b, n := f.batch, p.matrix.Count()
	if len(b.Jobs)+n > expand.MaxJobs {
		p.src.Problem(p.line, p.col, "", "with this job the batch has more than %d million jobs", expand.MaxJobs/1_000_000)
		return
	}
	first := len(b.Jobs)
	names, differ := p.names(n)
	f.unsure = f.unsure || !differ || first > b.Files[f.index].First
	b.Jobs = slices.Grow(b.Jobs, n)
	v := expand.Values{}
	for i := range n {
		combo := p.matrix.Combo(i)
		spec := p.shared
		if spec == nil {
			v = p.matrix.Values(combo, names[i], v.Params[:0])
			spec = p.spec(&v)
		}
		if bad := badName(names[i]); bad != "" {
			p.refuseName(names[i], bad)
			f.partial = true
			continue
		}
		b.Jobs = append(b.Jobs, Job{ID: len(b.Jobs), File: f.index, Name: names[i], Spec: spec, Queue: -1, combo: combo})
	}
	f.makeKeys(p, b.Jobs[first:])
}
