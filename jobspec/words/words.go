// Package words has the keys of a job file.
package words

import (
	"cmp"

	"gpurun/jobspec/source"

	"gopkg.in/yaml.v3"
)

// Job has the keys of a job, in the order of the reference.
var Job = []string{
	"name", "run", "matrix", "zip", "sample", "params", "args", "needs", "when", "queue", "priority",
	"gpus", "gpu_memory", "gpu_model", "gpu_ids", "max_util", "cpus", "affinity", "memory", "pool", "share", "slots", "cluster",
	"env", "work_dir", "shell", "setup", "log", "stdout", "stderr", "timeout", "stall", "on_stall", "leftovers", "retry", "resize",
	"outputs", "inputs", "metrics", "config", "allow", "notify", "desc", "tags",
}

// List are the keys that only an experiment list has.
var List = []string{"algorithm", "log_path", "extra_args"}

// Mappings are the keys whose value is a mapping.
var Mappings = []string{"matrix", "zip", "sample", "params", "args", "env", "timeout", "stall", "retry", "resize", "cluster", "metrics", "config", "extra_args"}

// Same are keys of other tools that mean exactly one of ours.
var Same = map[string]string{
	"command": "run", "cmd": "run",
	"depends_on": "needs", "deps": "needs",
	"retries": "retry",
}

// Own returns our word for a key.
func Own(key string) string { return cmp.Or(Same[key], key) }

// ForeignTop are keys that other tools have at the top of a file.
var ForeignTop = map[string]string{
	"tasks": "jobs", "experiments": "jobs", "runs": "jobs", "steps": "jobs", "commands": "jobs", "job": "jobs", "stages": "jobs",
	"config": "settings", "options": "settings", "global": "settings", "env": "defaults: {env: …}",
}

// Top are the keys at the top of a file.
var Top = []string{"settings", "defaults", "jobs"}

// HomeSlip warns about a bare ~, which YAML reads as null.
func HomeSlip(s *source.Source, key string, n *yaml.Node) {
	if key == "work_dir" && source.IsNull(n) && n.Value == "~" {
		s.Warning(n.Line, n.Column, `for the home folder write "~", with quotes`, "work_dir: ~ means null in YAML")
	}
}
