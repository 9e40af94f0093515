package jobspec

import (
	"slices"
	"strings"
)

// jobKeys are the words of a job, in the order of the reference.
var jobKeys = []string{
	"name", "run", "matrix", "zip", "params", "args", "needs", "when", "queue", "priority",
	"gpus", "gpu_memory", "gpu_model", "gpu_ids", "max_util", "cpus", "memory", "share",
	"env", "work_dir", "shell", "log", "stdout", "stderr", "timeout", "leftovers", "retry",
	"outputs", "inputs", "config", "allow", "desc", "tags",
}

// listKeys are those that only an experiment list has.
var listKeys = []string{"algorithm", "log_path", "extra_args"}

// mappingKeys are those that have keys of their own below them.
var mappingKeys = []string{"matrix", "zip", "params", "args", "env", "retry", "config", "extra_args"}

// sameKeys are words of other tools that mean exactly one of ours.
var sameKeys = map[string]string{
	"command": "run", "cmd": "run",
	"depends_on": "needs", "deps": "needs",
	"retries": "retry",
}

// foreignKeys are words of other tools, answered with ours.
var foreignKeys = map[string]string{
	"time": "timeout: 6h", "timeout-minutes": "timeout: 90m", "timeout_minutes": "timeout: 90m", "time_limit": "timeout: 6h", "walltime": "timeout: 6h", "max_time": "timeout: 6h",
	"mem": "memory: 16GiB (of the host) or gpu_memory: 16GiB (of each GPU)", "ram": "memory: 16GiB", "mem_gb": "memory: 16GiB", "host_memory": "memory: 16GiB",
	"vram": "gpu_memory: 12GiB", "gpu_mem": "gpu_memory: 12GiB", "min_memory": "gpu_memory: 12GiB", "min_gpu_memory": "gpu_memory: 12GiB",
	"workdir": "work_dir: …", "working-directory": "work_dir: …", "working_directory": "work_dir: …", "working_dir": "work_dir: …", "dir": "work_dir: …", "cwd": "work_dir: …", "chdir": "work_dir: …",
	"strategy": "matrix (directly in the job)", "foreach": "matrix", "for_each": "matrix", "for": "matrix", "sweep": "matrix", "grid": "matrix",
	"seed": "matrix: {seed: [1, 2]}", "seeds": "matrix: {seed: [1, 2]}", "array": "matrix: {i: 0..9}",
	"num_gpus": "gpus: 2", "ngpus": "gpus: 2", "gpu": "gpus: 1 (how many) or gpu_ids: [0] (which)", "gres": "gpus: 2", "gpu_count": "gpus: 2", "n_gpus": "gpus: 2",
	"device": "gpu_ids: [0]", "devices": "gpu_ids: [0]", "cuda_visible_devices": "gpu_ids: [0]",
	"gpu_type": "gpu_model: a100", "model": "gpu_model: a100", "constraint": "gpu_model: a100",
	"num_cpus": "cpus: 4", "cpus-per-task": "cpus: 4", "cpus_per_task": "cpus: 4", "cores": "cpus: 4", "ncpus": "cpus: 4", "threads": "cpus: 4",
	"script": "run", "scripts": "run", "commands": "run (a list of commands)", "cmds": "run (a list of commands)", "steps": "run (a list of commands)", "exec": "run", "program": "run",
	"environment": "env", "environments": "env", "envs": "env", "vars": "params (for {variables}) or env", "variables": "params (for {variables}) or env", "parameters": "params",
	"dependencies": "needs", "dependency": "needs", "depends": "needs", "after": "needs", "requires": "needs",
	"if": "when: success, failure or always", "condition": "when: success, failure or always",
	"output": "log (for what it prints) or outputs (files that it makes)", "log_file": "log", "logfile": "log", "log_path": "log", "logs": "log", "out": "outputs", "artifacts": "outputs", "sources": "inputs", "generates": "outputs",
	"error": "stderr", "input": "inputs",
	"description": "desc", "comment": "desc", "help": "desc", "tag": "tags", "labels": "tags", "label": "tags", "id": "name", "job_name": "name", "job-name": "name",
	"restart": "retry", "max_retries": "retry: 2", "attempts": "retry: 2 (attempts after the first)", "backoff": "retry: {backoff_after: 3, backoff: 10m}",
	"partition": "queue (jobs one after another) or gpu_model", "nice": "priority", "exclusive": "share: false",
	"extra_args": "args", "arguments": "args", "argv": "args", "continue-on-error": "when: always in the jobs that need it", "concurrency": "settings.max_concurrent",
}

// foreignTop are words that other tools have at the top of a file.
var foreignTop = map[string]string{
	"tasks": "jobs", "experiments": "jobs", "runs": "jobs", "steps": "jobs", "commands": "jobs", "job": "jobs", "stages": "jobs",
	"config": "settings", "options": "settings", "global": "settings", "env": "defaults: {env: …}",
}

// topKeys are the words at the top of a file.
var topKeys = []string{"settings", "defaults", "jobs"}

// keyHint answers a word that is no key of a job.
func keyHint(word string) string {
	if own, ok := foreignKeys[strings.ToLower(word)]; ok {
		return "here it is called " + own
	}
	if n := nearest(word, slices.Concat(jobKeys, listKeys, []string{"command", "depends_on"})); n != "" {
		return "did you mean \"" + n + "\"?"
	}
	if slices.Contains(settingNames(settingDefs()), word) {
		return "it is a setting: write it under settings"
	}
	return "the keys of a job are " + strings.Join(jobKeys, ", ")
}
