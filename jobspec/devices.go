package jobspec

import (
	"fmt"

	"gpurun/gpu"
	"gpurun/jobspec/source"
)

// FitDefaults lowers the default min_memory of jobs that do not set gpu_memory to 90%
// of the largest device, so that a small GPU is usable without a setting. devs are
// all managed devices. It must be called once, before anything looks at the jobs.
func (b *Batch) FitDefaults(devs []gpu.Device) {
	most := defaultMost(devs)
	var last *Spec
	for i := range b.Jobs {
		s := b.Jobs[i].Spec
		if s == last || !s.DefaultMemory {
			continue
		}
		last = s
		s.Request.Memory = min(s.Request.Memory, most)
	}
}

// defaultMost is the most that a job without gpu_memory asks for.
func defaultMost(devs []gpu.Device) gpu.Bytes {
	if most := gpu.Largest(devs); most > 0 {
		return most / 10 * 9
	}
	return 1 << 60
}

// CheckDevices reports jobs that no device of pool could ever take, among those that
// wanted selects.
func (b *Batch) CheckDevices(pool *gpu.Pool, wanted func(id int) bool) []Problem {
	devs := pool.Devices()
	return b.judge(wanted, func(s *Spec) (why, hint string) {
		if s.Request.Max == 0 {
			return "", ""
		}
		r := s.Request
		if s.DefaultMemory {
			r.Memory = min(r.Memory, defaultMost(devs))
		}
		return pool.Never(r)
	})
}

// CheckHost reports jobs that ask for more cores or host memory than this machine
// grants jobs, among those that wanted selects. 0 means unknown.
func (b *Batch) CheckHost(cores int, memory gpu.Bytes, wanted func(id int) bool) []Problem {
	return b.judge(wanted, func(s *Spec) (why, hint string) {
		switch {
		case cores > 0 && s.CPUs > cores:
			return fmt.Sprintf("cpus: %d, but this machine has %d", s.CPUs, cores), ""
		case memory > 0 && s.Memory > memory:
			hint := ""
			if s.Request.Max > 0 {
				hint = "memory is host memory; for GPU memory write gpu_memory"
			}
			return fmt.Sprintf("memory: %s, but this machine has %s", s.Memory.Asked(), memory.Round()), hint
		}
		return "", ""
	})
}

// judge reports once for each Spec why its jobs could never run.
func (b *Batch) judge(wanted func(id int) bool, never func(s *Spec) (why, hint string)) []Problem {
	var out source.Report
	judged := map[*Spec]bool{}
	for i := range b.Jobs {
		j := &b.Jobs[i]
		if judged[j.Spec] || wanted != nil && !wanted(i) {
			continue
		}
		judged[j.Spec] = true
		why, hint := never(j.Spec)
		if why == "" {
			continue
		}
		p := Problem{File: b.Files[j.File].Path, Text: fmt.Sprintf("job %q can never run: %s", j.Name, why), Hint: hint}
		if t := j.Spec.text; t != nil {
			p.Line, p.Col = t.Line, t.Col
		}
		out.Add(p)
	}
	var files []string
	for _, f := range b.Files {
		files = append(files, f.Path)
	}
	source.Sort(out.Problems, files)
	return out.Problems
}
