package jobspec

import "slices"

// expand makes the jobs of one proto.
func (f *fileJobs) expand(p *proto) {
	b, n := f.batch, p.matrix.count()
	if len(b.Jobs)+n > maxJobs {
		p.src.Problem(p.line, p.col, "", "with this job the batch has more than %d million jobs", maxJobs/1_000_000)
		return
	}
	first := len(b.Jobs)
	names, differ := p.names(n)
	f.unsure = f.unsure || !differ || first > b.Files[f.index].First
	b.Jobs = slices.Grow(b.Jobs, n)
	v := values{}
	for i := range n {
		combo := p.matrix.combo(i)
		spec := p.shared
		if spec == nil {
			v = p.matrix.values(combo, names[i], v.params[:0])
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
