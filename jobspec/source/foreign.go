package source

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"

	"gopkg.in/yaml.v3"
)

// For a key of another tool, the hint shows gpurun's key with the user's value. For example, the
// hint for time: 12:00:00 is timeout: 12h.

// An inOurWords function returns gpurun's key and value for the value of another tool's key.
type inOurWords func(v *yaml.Node) string

// foreignKeys are job keys of other tools.
var foreignKeys = sync.OnceValue(func() map[string]inOurWords {
	return map[string]inOurWords{
		"time": timeoutIn("m"), "timeout-minutes": timeoutIn("m"), "timeout_minutes": timeoutIn("m"), "timeout_min": timeoutIn("m"),
		"timeout_seconds": timeoutIn("s"), "time_limit": timeoutIn(""), "walltime": timeoutIn("s"), "max_time": timeoutIn(""), "max_runtime": timeoutIn(""),

		"mem": hostOrGPU, "ram": sized("memory"), "mem_gb": sized("memory"), "host_memory": sized("memory"),
		"vram": sized("gpu_memory"), "gpu_mem": sized("gpu_memory"), "min_memory": sized("gpu_memory"), "min_gpu_memory": sized("gpu_memory"), "gpu_mem_gb": sized("gpu_memory"),

		"workdir": same("work_dir"), "working-directory": same("work_dir"), "working_directory": same("work_dir"), "working_dir": same("work_dir"), "dir": same("work_dir"), "cwd": same("work_dir"), "chdir": same("work_dir"),

		"strategy": same("matrix (directly in the job)"), "foreach": same("matrix"), "for_each": same("matrix"), "for": same("matrix"), "sweep": same("matrix"), "grid": same("matrix"),
		"from": rowsOf, "csv": rowsOf, "rows": rowsOf, "table": rowsOf,
		"random": draws, "random_search": draws, "search": draws, "search_space": draws, "num_samples": draws, "n_trials": draws, "trials": draws,
		"semaphore": pool, "license": pool, "licenses": pool, "mutex": pool,
		"seed": seeds, "seeds": seeds, "array": jobArray,

		"num_gpus": gpuCount, "ngpus": gpuCount, "gres": gpuCount, "gpu_count": gpuCount, "n_gpus": gpuCount, "gpus-per-node": gpuCount, "gpus_per_node": gpuCount, "nproc_per_node": gpuCount,
		"gpu": howManyOrWhich, "device": gpuIDs, "devices": gpuIDs, "cuda_visible_devices": gpuIDs, "gpu_id": gpuIDs,
		"gpu_type": same("gpu_model"), "model": same("gpu_model"), "accelerator": same("gpu_model"),
		"num_cpus": same("cpus"), "cpus-per-task": same("cpus"), "cpus_per_task": same("cpus"), "cores": same("cpus"), "ncpus": same("cpus"), "threads": same("cpus"), "cpu": same("cpus"),

		"script": same("run"), "scripts": same("run"), "commands": same("run"), "cmds": same("run"), "steps": same("run"), "exec": same("run"), "program": same("run"),
		"environment": same("env"), "environments": same("env"), "envs": same("env"), "vars": fixed("params (for {variables}) or env"), "variables": fixed("params (for {variables}) or env"), "parameters": same("params"),
		"dependencies": same("needs"), "dependency": same("needs"), "depends": same("needs"), "after": same("needs"), "requires": same("needs"),
		"if": fixed("when: success, failure or always"), "condition": fixed("when: success, failure or always"),
		"output": fixed("log (for its output) or outputs (for files it creates)"), "log_file": same("log"), "logfile": same("log"), "log_path": same("log"), "logs": same("log"), "out": same("outputs"), "artifacts": same("outputs"), "sources": same("inputs"), "generates": same("outputs"),
		"metric": same("metrics"), "results": same("metrics"), "scores": same("metrics"),
		"error": same("stderr"), "input": same("inputs"),
		"description": same("desc"), "comment": same("desc"), "help": same("desc"), "tag": same("tags"), "labels": same("tags"), "label": same("tags"), "id": same("name"), "job_name": same("name"), "job-name": same("name"),
		"restart": same("retry"), "max_retries": same("retry"), "attempts": attempts, "backoff": fixed("retry: {backoff_after: 3, backoff: 10m}"),
		"partition": ofCluster("partition"), "account": ofCluster("account"), "qos": ofCluster("qos"), "project": ofCluster("project"), "exclude": ofMatrix("exclude"), "include": ofMatrix("include"), "constraint": ofCluster("constraint"), "nice": same("priority"), "exclusive": exclusive,
		"extra_args": same("args"), "arguments": same("args"), "argv": same("args"), "continue-on-error": fixed("when: always in the jobs that need it"), "concurrency": same("settings.max_concurrent"),
	}
})

// ofCluster suggests a key of a job's cluster mapping.
func ofCluster(key string) inOurWords {
	return func(v *yaml.Node) string {
		return fmt.Sprintf("cluster: {%s: %s}", key, cmp.Or(inline(v), "NAME"))
	}
}

// ofMatrix suggests moving a list of combinations into the matrix. A text is the nodes that a cluster
// must not use.
func ofMatrix(key string) inOurWords {
	return func(v *yaml.Node) string {
		if v.Kind == yaml.ScalarNode && key == "exclude" {
			return ofCluster(key)(v)
		}
		return "it inside matrix: matrix: {…, " + key + ": […]}"
	}
}

var (
	draws = fixed(`sample: {n: 20, params: {lr: "log 1e-4..1e-1"}}`)
	pool  = fixed("pool: NAME, and settings: {pools: {NAME: 4}}")
)

// rowsOf suggests reading the rows of a file.
func rowsOf(v *yaml.Node) string {
	return "matrix: {from: " + cmp.Or(scalarText(v), "params.csv") + "}"
}

// ForeignHint returns a hint for another tool's key, or "" if the key is unknown.
func ForeignHint(word string, v *yaml.Node) string {
	ours, ok := foreignKeys()[strings.ToLower(word)]
	if !ok {
		return ""
	}
	return "write " + ours(v)
}

func fixed(text string) inOurWords { return func(*yaml.Node) string { return text } }

// same suggests a key that takes the same value.
func same(key string) inOurWords {
	return func(v *yaml.Node) string { return strings.TrimSuffix(key+": "+inline(v), ": ") }
}

// inline returns a scalar or a list of scalars as written on one line; "" for other values and if
// the line is too long.
func inline(v *yaml.Node) string {
	if IsNull(v) {
		return ""
	}
	switch v.Kind {
	case yaml.ScalarNode:
		if len(v.Value) > 40 || strings.ContainsAny(v.Value, "\n\"") {
			return ""
		}
		if v.Style&(yaml.SingleQuotedStyle|yaml.DoubleQuotedStyle) != 0 {
			return strconv.Quote(v.Value)
		}
		return v.Value
	case yaml.SequenceNode:
		var items []string
		for _, item := range v.Content {
			text := inline(item)
			if item.Kind != yaml.ScalarNode || text == "" {
				return ""
			}
			items = append(items, text)
		}
		if text := strings.Join(items, ", "); len(text) <= 40 {
			return "[" + text + "]"
		}
	}
	return ""
}

func scalarText(v *yaml.Node) string {
	if IsNull(v) || v.Kind != yaml.ScalarNode {
		return ""
	}
	return strings.TrimSpace(v.Value)
}

// timeoutIn converts times in the formats of schedulers. bare is the unit of a bare number; "" if
// tools disagree.
func timeoutIn(bare string) inOurWords {
	return func(v *yaml.Node) string {
		s := scalarText(v)
		switch {
		case IsNumber(s) && bare == "":
			return fmt.Sprintf("timeout: %sm (minutes) or timeout: %ss (seconds)", s, s)
		case IsNumber(s):
			s += bare
		}
		if _, err := ParseDuration(s); err == nil {
			return "timeout: " + s
		}
		if d, ok := otherTime(s); ok {
			return "timeout: " + FormatDuration(d)
		}
		return "timeout: 6h"
	}
}

// sizeIn converts a size to gpurun's units. G is GiB, as in every scheduler. A bare number of at
// least 256 is in MiB, as in Slurm; a smaller one is in GiB.
func sizeIn(v *yaml.Node) string {
	s := scalarText(v)
	if f, err := strconv.ParseFloat(s, 64); err == nil && f > 0 {
		if f >= 256 {
			return s + "MiB"
		}
		return s + "GiB"
	}
	if _, err := ParseSize(s); err == nil {
		return s
	}
	if other := otherSize(s); other != "" {
		return other
	}
	return "16GiB"
}

func sized(key string) inOurWords {
	return func(v *yaml.Node) string { return key + ": " + sizeIn(v) }
}

func hostOrGPU(v *yaml.Node) string {
	size := sizeIn(v)
	return fmt.Sprintf("memory: %s (of the host) or gpu_memory: %s (of each GPU)", size, size)
}

var lastNumber = Regexp(`^(?:gpu:)?(?:([A-Za-z][\w.-]*)[:=])?(\d+)$`)

// gpuCount parses 3, gpu:2, gpu:a100:2.
func gpuCount(v *yaml.Node) string {
	m := lastNumber().FindStringSubmatch(strings.ToLower(scalarText(v)))
	switch {
	case m == nil:
		return "gpus: 2"
	case m[1] != "" && m[1] != "gpu":
		return fmt.Sprintf("gpus: %s and gpu_model: %s", m[2], m[1])
	}
	return "gpus: " + m[2]
}

func howManyOrWhich(v *yaml.Node) string {
	s := scalarText(v)
	if _, err := strconv.Atoi(s); err == nil {
		return fmt.Sprintf("gpus: %s (how many) or %s (which)", s, gpuIDs(v))
	}
	if _, err := ParseGPUIDs(strings.TrimPrefix(s, "cuda:")); err != nil && s != "" {
		return "gpu_model: " + s
	}
	return gpuIDs(v)
}

// gpuIDs parses 0, cuda:1, "0,1", [0, 1].
func gpuIDs(v *yaml.Node) string {
	if list := inline(v); strings.HasPrefix(list, "[") {
		return "gpu_ids: " + list
	}
	ids, err := ParseGPUIDs(strings.TrimPrefix(scalarText(v), "cuda:"))
	if err != nil {
		ids = []string{"0"}
	}
	return "gpu_ids: [" + strings.Join(ids, ", ") + "]"
}

func seeds(v *yaml.Node) string {
	list := cmp.Or(inline(v), "1, 2")
	return "matrix: {seed: [" + strings.Trim(list, "[]") + "]}"
}

var arraySpec = Regexp(`^(\d+)-(\d+)(?::(\d+))?(?:%(\d+))?$`)

// jobArray parses 0-9, 0-9:3, 0-15%4, 1,3,5.
func jobArray(v *yaml.Node) string {
	s := scalarText(v)
	m := arraySpec().FindStringSubmatch(s)
	if m == nil {
		if ids := strings.Split(s, ","); len(ids) > 1 && !slices.ContainsFunc(ids, func(id string) bool { return !IsNumber(strings.TrimSpace(id)) }) {
			return "matrix: {i: [" + s + "]}"
		}
		return "matrix: {i: " + cmp.Or(inline(v), "0..9") + "}"
	}
	from, _ := strconv.Atoi(m[1])
	to, _ := strconv.Atoi(m[2])
	text := fmt.Sprintf("%d..%d", from, to)
	if step, _ := strconv.Atoi(m[3]); step > 1 && to > from {
		text = fmt.Sprintf("%d..%d..%d", from, to-(to-from)%step, step)
	}
	text = "matrix: {i: " + text + "}"
	if m[4] != "" {
		text += ", and settings: {max_concurrent: " + m[4] + "}"
	}
	return text
}

// attempts converts a number of attempts, which includes the first, to retries.
func attempts(v *yaml.Node) string {
	if n, err := strconv.Atoi(scalarText(v)); err == nil && n > 0 {
		return fmt.Sprintf("retry: %d (attempts after the first)", n-1)
	}
	return "retry: 2 (attempts after the first)"
}

func exclusive(v *yaml.Node) string {
	if strings.EqualFold(scalarText(v), "false") {
		return "share: true"
	}
	return "share: false"
}
