package jobspec

import (
	"slices"
	"strings"

	"gpurun/jobspec/source"

	"gopkg.in/yaml.v3"
)

// jobKeys are the keys of a job, in the order of the reference.
var jobKeys = []string{
	"name", "run", "matrix", "zip", "params", "args", "needs", "when", "queue", "priority",
	"gpus", "gpu_memory", "gpu_model", "gpu_ids", "max_util", "cpus", "memory", "share",
	"env", "work_dir", "shell", "log", "stdout", "stderr", "timeout", "leftovers", "retry",
	"outputs", "inputs", "config", "allow", "desc", "tags",
}

// listKeys are the keys that only an experiment list has.
var listKeys = []string{"algorithm", "log_path", "extra_args"}

// mappingKeys are the keys whose value is a mapping.
var mappingKeys = []string{"matrix", "zip", "params", "args", "env", "retry", "config", "extra_args"}

// sameKeys are keys of other tools that mean exactly one of ours.
var sameKeys = map[string]string{
	"command": "run", "cmd": "run",
	"depends_on": "needs", "deps": "needs",
	"retries": "retry",
}

// foreignTop are keys that other tools have at the top of a file.
var foreignTop = map[string]string{
	"tasks": "jobs", "experiments": "jobs", "runs": "jobs", "steps": "jobs", "commands": "jobs", "job": "jobs", "stages": "jobs",
	"config": "settings", "options": "settings", "global": "settings", "env": "defaults: {env: …}",
}

// topKeys are the keys at the top of a file.
var topKeys = []string{"settings", "defaults", "jobs"}

// keyHint answers a word that is not a job key.
func keyHint(word string, v *yaml.Node) string {
	if hint := foreignHint(word, v); hint != "" {
		return hint
	}
	if n := source.Nearest(word, slices.Concat(jobKeys, listKeys, []string{"command", "depends_on"})); n != "" {
		return "did you mean \"" + n + "\"?"
	}
	if slices.Contains(settingNames(settingDefs()), word) {
		return "it is a setting: move it under settings"
	}
	return "valid keys: " + strings.Join(jobKeys, ", ")
}

// ourKeys are all words that may begin a line of a job file.
func ourKeys() []string {
	return slices.Concat(topKeys, jobKeys, listKeys, settingNames(settingDefs()))
}
