package jobspec

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

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
	if most := largest(devs); most > 0 {
		return most / 10 * 9
	}
	return 1 << 60
}

func largest(devs []gpu.Device) gpu.Bytes {
	var most gpu.Bytes
	for _, d := range devs {
		most = max(most, d.Total)
	}
	return most
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
		if why, hint = b.never(&r, devs); why == "" {
			why, _ = pool.Possible(r) // all rules together
		}
		return why, hint
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
	judged := map[*Spec]struct{}{}
	for i := range b.Jobs {
		j := &b.Jobs[i]
		if _, known := judged[j.Spec]; known || wanted != nil && !wanted(i) {
			continue
		}
		why, hint := never(j.Spec)
		judged[j.Spec] = struct{}{}
		if why == "" {
			continue
		}
		p := Problem{File: b.Files[j.File].Path, Text: fmt.Sprintf("job %q can never run: %s", j.Name, why), Hint: hint}
		if t := j.Spec.text; t != nil {
			p.Line, p.Col = t.line, t.col
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

// never explains why no choice of devices could satisfy r; "" if one could.
func (b *Batch) never(r *gpu.Request, devs []gpu.Device) (why, hint string) {
	if len(devs) == 0 {
		return "this machine has no GPU", "if the job needs none, write gpus: 0"
	}
	fit := filter(devs, func(d gpu.Device) bool { return r.Models == "" || hasModel(d, r.Models.List()) })
	if len(fit) == 0 {
		return fmt.Sprintf("no GPU here matches %s", strings.Join(r.Models.List(), " or ")), "this machine has " + models(devs)
	}
	fit = filter(fit, func(d gpu.Device) bool { return r.IDs == "" || hasID(d, r.IDs.List()) })
	if len(fit) == 0 {
		return fmt.Sprintf("this run may not use any of its gpu_ids (%s)", strings.Join(r.IDs.List(), ", ")), ""
	}
	most := largest(fit)
	big := filter(fit, func(d gpu.Device) bool { return d.Total == 0 || d.Total >= r.Memory })
	switch n := b.usable(devs); {
	case len(big) == 0:
		return fmt.Sprintf("needs %s, but the largest GPU has %s", r.Memory.Asked(), most.Round()), ""
	case len(big) < r.Min && len(big) < len(devs):
		return fmt.Sprintf("needs %d GPUs, but only %d can take it", r.Min, len(big)), ""
	case len(big) < r.Min:
		return fmt.Sprintf("needs %d GPUs, but there are %d", r.Min, len(big)), ""
	case n < r.Min:
		return fmt.Sprintf("needs %d GPUs, but reserve, min_gpus and max_gpus leave %d", r.Min, n), ""
	}
	return "", ""
}

// usable returns how many of the managed devices one run may hold at once.
func (b *Batch) usable(devs []gpu.Device) int {
	s := &b.Settings
	n := len(devs) - s.Reserve
	if s.MinGPUs < 0 && s.MaxGPUs < 0 {
		return max(n, 0)
	}
	n = min(max(n, s.MinGPUs), len(devs))
	if s.MaxGPUs >= 0 {
		n = min(n, s.MaxGPUs)
	}
	return n
}

func filter(devs []gpu.Device, keep func(gpu.Device) bool) []gpu.Device {
	var out []gpu.Device
	for _, d := range devs {
		if keep(d) {
			out = append(out, d)
		}
	}
	return out
}

func hasModel(d gpu.Device, models []string) bool {
	return d.Silent || slices.ContainsFunc(models, func(m string) bool {
		return strings.Contains(strings.ToLower(d.Name), strings.ToLower(m))
	})
}

func hasID(d gpu.Device, ids []string) bool {
	return slices.ContainsFunc(ids, func(id string) bool {
		if n, err := strconv.Atoi(id); err == nil {
			return n == d.Index
		}
		return d.Silent || strings.HasPrefix(string(d.UUID), id)
	})
}

func models(devs []gpu.Device) string {
	var names []string
	for _, d := range devs {
		if !slices.Contains(names, d.Name) {
			names = append(names, d.Name)
		}
	}
	return strings.Join(names, ", ")
}
