package jobspec

import (
	"slices"

	"gpurun/jobspec/expand"
)

// expand makes the jobs of one proto.
func (f *fileJobs) expand(p *proto) {
	b, n := f.batch, p.Matrix.Count()
	if len(b.Jobs)+n > expand.MaxJobs {
		p.src.Problem(p.Line, p.Col, "", "with this job the batch has more than %d million jobs", expand.MaxJobs/1_000_000)
		return
	}
	b.Jobs = slices.Grow(b.Jobs, n)
	if len(f.called) == 0 {
		f.called, f.alike = make(map[string]int32, n), make(map[Key]int32, n)
	}
	p.distinguish()
	k := newKeyer(f, p)
	var v expand.Values
	for i := range n {
		combo := p.Matrix.Combo(i)
		v = p.Matrix.Values(combo, "", v.Params[:0])
		v.Name = p.nameOf(&v)
		name := v.Name
		spec := p.spec(&v)
		if bad := badName(name); bad != "" {
			p.refuseName(name, bad)
			f.partial = true
			continue
		}
		job := Job{ID: len(b.Jobs), File: f.index, Name: name, Spec: spec, Queue: -1, combo: combo}
		if twin, taken := f.called[name]; taken {
			f.refuseTwin(&b.Jobs[twin], &job)
			f.partial = true
			continue
		}
		f.called[name] = job.id32()
		job.Key = k.key(&v)
		b.Jobs = append(b.Jobs, job)
	}
}
