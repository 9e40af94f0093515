package cluster

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	"gpurun/gpu"
)

// A Model is a GPU model's entry in settings.cluster.models.
type Model struct {
	Name    string
	Means   string    // the cluster's resource for it; "" if it has a Feature instead
	Feature string    // a feature of the nodes that have it, or ""
	Memory  gpu.Bytes // 0 if not in the table
}

// modelIn parses an entry of the table: "gpu:a100" or "constraint=a100", perhaps with a memory
// size.
func modelIn(name, text string) Model {
	means, size, _ := strings.Cut(text, " ")
	m := Model{Name: name}
	m.Memory, _ = gpu.ParseBytes(size)
	if feature, is := strings.CutPrefix(means, "constraint="); is {
		m.Feature = feature
	} else {
		m.Means = means
	}
	return m
}

// Suitable returns the models that can run the job, smallest memory first; nil if every node can.
// It starts from the models that the job names, or from the whole table, and drops those with too
// little memory.
func (a JobRequest) Suitable() ([]Model, error) {
	all := a.table()
	if names := a.Request.Models; len(names) > 0 {
		for _, name := range names {
			if !slices.ContainsFunc(all, func(m Model) bool { return m.Name == name }) {
				return nil, fmt.Errorf("gpu_model: no name for %q on this cluster: set cluster: {models: {%s: …}} (see gpurun help models)", name, name)
			}
		}
		all = slices.DeleteFunc(all, func(m Model) bool { return !slices.Contains(names, m.Name) })
	} else {
		all = slices.DeleteFunc(all, func(m Model) bool { return m.Memory == 0 })
	}
	small := func(m Model) bool { return m.Memory > 0 && m.Memory < a.GPUMemory }
	fit := slices.DeleteFunc(slices.Clone(all), small)
	switch {
	case len(all) > 0 && len(fit) == 0:
		most := all[len(all)-1]
		return nil, fmt.Errorf("gpu_memory: the job needs %s, but the largest matching model, %s, has %s (cluster.models)", a.GPUMemory.Round(), most.Name, most.Memory.Round())
	case len(a.Request.Models) == 0 && len(fit) == len(all):
		return nil, nil
	}
	return fit, nil
}

// table returns all models that settings.cluster names, ordered by memory.
func (a JobRequest) table() (all []Model) {
	for _, key := range slices.Sorted(maps.Keys(a.Options)) {
		if name, is := strings.CutPrefix(key, "models."); is {
			all = append(all, modelIn(name, a.Options[key]))
		}
	}
	slices.SortStableFunc(all, func(x, y Model) int { return cmp.Compare(x.Memory, y.Memory) })
	return all
}

// Largest returns the largest memory of a model in the table; 0 if unknown.
func (a JobRequest) Largest() gpu.Bytes {
	all := a.table()
	if len(all) == 0 {
		return 0
	}
	return all[len(all)-1].Memory
}

// vouched reports whether the table guarantees that the GPUs have enough memory.
func (a JobRequest) vouched() bool {
	models, err := a.Suitable()
	return err == nil && len(models) > 0 && !slices.ContainsFunc(models, func(m Model) bool { return m.Memory == 0 })
}

// Known reports whether the table alone shows that any GPU the cluster may assign has enough
// memory.
func (a JobRequest) Known() bool {
	all := a.table()
	return a.GPUs == 0 || a.GPUMemory == 0 || a.vouched() || len(all) > 0 && all[0].Memory >= a.GPUMemory
}
