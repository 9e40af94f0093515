package gridengine

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"gpurun/gpu"
	"gpurun/runner/engine/cluster"
)

// perSlot is the suffix of a resource that the site counts per slot of a job.
const perSlot = "/slot"

// addressSpace is added to address space limits for gpurun's own two processes. The processes use
// little memory, but would not start without this address space.
const addressSpace = 4 * gpu.GiB

// Args maps a job's requests to arguments. Sites choose the names of resources, so the job file
// names them (settings.cluster).
func (Dialect) Args(a cluster.JobRequest) ([]string, error) {
	var args, resources []string
	add := func(flag, value string) {
		if value != "" {
			args = append(args, flag, value)
		}
	}
	add("-q", a.Options["queue"])
	add("-P", a.Options["project"])
	add("-A", a.Options["account"])
	slots := max(a.CPUs, 1)
	if slots > 1 {
		args = append(args, "-pe", cmp.Or(a.Options["pe"], "smp"), strconv.Itoa(slots))
	}
	if a.GPUs > 0 {
		name, each := gpuResource(a.Options)
		n := a.GPUs
		if each {
			if n%slots != 0 {
				return nil, fmt.Errorf("gpus: this cluster counts %s per slot, and %d GPUs cannot be split across %d slots: make cpus a divisor of gpus", name, n, slots)
			}
			n /= slots
		}
		resources = append(resources, fmt.Sprintf("%s=%d", name, n))
		model, err := models(a)
		if err != nil {
			return nil, err
		}
		resources = append(resources, model...)
	}
	if nodes := a.Excluded(); len(nodes) > 0 {
		resources = append(resources, "hostname=!("+strings.Join(nodes, "|")+")")
	}
	if a.Memory > 0 {
		name, each := strings.CutSuffix(a.Options["memory_resource"], perSlot)
		if name == "" {
			return nil, fmt.Errorf("memory: no memory resource known for this cluster: set cluster: {memory_resource: NAME}, where NAME is often mem_free or h_vmem/slot (qconf -sc lists all)")
		}
		size := a.Memory
		if name == "h_vmem" || name == "s_vmem" {
			size += addressSpace
		}
		if each {
			size = (size + gpu.Bytes(slots) - 1) / gpu.Bytes(slots)
		}
		resources = append(resources, fmt.Sprintf("%s=%dM", name, (size+gpu.MiB-1)/gpu.MiB))
	}
	if a.Limit > 0 {
		resources = append(resources, fmt.Sprintf("h_rt=%d", (a.Limit+time.Second-1)/time.Second))
	}
	add("-l", strings.Join(resources, ","))
	if a.Priority < 0 {
		add("-p", strconv.Itoa(max(a.Priority, -1023)))
	}
	for line := range strings.Lines(a.Options["extra"]) {
		flag, value, _ := strings.Cut(strings.TrimSpace(line), " ")
		args = append(args, flag)
		if value != "" {
			args = append(args, value)
		}
	}
	return args, nil
}

// gpuResource returns the resource that counts GPUs, and whether it counts per slot.
func gpuResource(options map[string]string) (name string, each bool) {
	return strings.CutSuffix(cmp.Or(options["gpu_resource"], "gpu"), perSlot)
}

// models returns the site's resource for GPU models: gpu_type=a100, or gpu_type=a100|v100 for any
// of several.
func models(a cluster.JobRequest) (resource []string, err error) {
	var name string
	var values []string
	suitable, err := a.Suitable()
	if err != nil {
		return nil, err
	}
	for _, m := range suitable {
		key, value, ok := strings.Cut(m.Means, "=")
		switch {
		case !ok:
			return nil, fmt.Errorf("gpu_model: no Grid Engine name for %q: set cluster: {models: {%s: \"RESOURCE=VALUE\"}} (qhost -F lists resources and values)", m.Name, m.Name)
		case name != "" && name != key:
			return nil, fmt.Errorf("gpu_model: Grid Engine needs all models in one resource, not %s and %s", name, key)
		}
		name = key
		if !slices.Contains(values, value) {
			values = append(values, value)
		}
	}
	if name == "" {
		return nil, nil
	}
	return []string{name + "=" + strings.Join(values, "|")}, nil
}
