package block

import (
	"slices"

	"gpurun/jobspec/source"

	"gopkg.in/yaml.v3"
)

// blockJobKeys are the job keys allowed in a block file's config.yaml. They apply to all blocks.
var blockJobKeys = []string{"timeout", "stall", "on_stall", "retry", "shell", "env", "log", "stdout", "stderr", "gpu_model", "cpus", "memory", "priority"}

// vagueKeys are job keys that a script's own config.yaml may use for something else.
var vagueKeys = []string{"name", "run", "params", "args", "outputs", "inputs", "config", "desc", "tags"}

// jobKey reports whether k is a job key. It refuses keys that blocks cannot have, so that no key
// meant for gpurun is silently ignored.
func (r *reader) jobKey(k, v *yaml.Node) bool {
	word := source.OwnKey(k.Value)
	switch {
	case !slices.Contains(r.jobKeys, word):
		return false
	case slices.Contains(vagueKeys, word):
		r.Warning(k.Line, k.Column, "to use it in gpurun, write the jobs as YAML", "%q is not a block key; gpurun leaves it to your scripts", k.Value)
		return true
	case !slices.Contains(blockJobKeys, word):
		r.Problem(k.Line, k.Column, "remove it; for jobs that need it, write them as YAML", "%q has no effect in a block file", k.Value)
		return true
	}
	r.setJobKey(k, word, v)
	return true
}

// setJobKey sets a job key of all blocks. word is its canonical name, and k is the key as written
// in the file.
func (r *reader) setJobKey(k *yaml.Node, word string, v *yaml.Node) {
	if !r.first(k, word) {
		return
	}
	if r.config.Job == nil {
		r.config.Job, r.config.File = &yaml.Node{Kind: yaml.MappingNode, Tag: "!!map", Line: k.Line, Column: k.Column}, r.Source
	}
	own := *k
	own.Value = word
	r.config.Job.Content = append(r.config.Job.Content, &own, v)
}
