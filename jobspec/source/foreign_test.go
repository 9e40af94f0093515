package source

import (
	"testing"

	"gopkg.in/yaml.v3"
)

// The hint for a key of another tool must use the value in the file where that is possible.
func TestForeignHintKeepsValue(t *testing.T) {
	for _, test := range []struct{ line, want string }{
		{"time: 12:00:00", "timeout: 12h"},
		{"time: 1-12:00:00", "timeout: 1d12h"},
		{"time: 1-12", "timeout: 1d12h"},
		{"time: 2-0:30", "timeout: 2d30m"},
		{"time: 30:00", "timeout: 30m"},
		{"time: 30", "timeout: 30m"},
		{"time: PT30M", "timeout: 30m"},
		{"time: P1DT2H", "timeout: 1d2h"},
		{"time: 2 hours", "timeout: 2h"},
		{"time: 90 min", "timeout: 1h30m"},
		{"time: 36h", "timeout: 36h"},
		{"time: soon", "timeout: 6h"},
		{"timeout-minutes: 90", "timeout: 90m"},
		{"walltime: 3600", "timeout: 3600s"},
		{"time_limit: 30", "timeout: 30m (minutes) or timeout: 30s (seconds)"},
		{"mem: 120G", "memory: 120GiB (of the host) or gpu_memory: 120GiB (of each GPU)"},
		{"mem: 16000", "memory: 16000MiB (of the host) or gpu_memory: 16000MiB (of each GPU)"},
		{"mem_gb: 16", "memory: 16GiB"},
		{"ram: 8gb", "memory: 8GB"},
		{"ram: 8Gi", "memory: 8GiB"},
		{"vram: 8000 MB", "gpu_memory: 8000 MB"},
		{"vram: 24GiB", "gpu_memory: 24GiB"},
		{"vram: lots", "gpu_memory: 16GiB"},
		{"csv: params.csv", "matrix: {from: params.csv}"},
		{"rows: [a, b]", "matrix: {from: params.csv}"},
		{"n_trials: 20", `sample: {n: 20, params: {lr: "log 1e-4..1e-1"}}`},
		{"license: matlab", "pool: NAME, and settings: {pools: {NAME: 4}}"},
		{"num_gpus: 3", "gpus: 3"},
		{"gres: gpu:3", "gpus: 3"},
		{"gres: gpu:a100:3", "gpus: 3 and gpu_model: a100"},
		{"gpu: 3", "gpus: 3 (how many) or gpu_ids: [3] (which)"},
		{"gpu: 0,1", "gpu_ids: [0, 1]"},
		{"gpu: A100", "gpu_model: A100"},
		{"device: cuda:1", "gpu_ids: [1]"},
		{"devices: [2, 3]", "gpu_ids: [2, 3]"},
		{"gpu_type: h100", "gpu_model: h100"},
		{"cpus-per-task: 12", "cpus: 12"},
		{"seeds: [3, 4]", "matrix: {seed: [3, 4]}"},
		{"seed: 7", "matrix: {seed: [7]}"},
		{"array: 0-15%4", "matrix: {i: 0..15}, and settings: {max_concurrent: 4}"},
		{"array: 0-10:3", "matrix: {i: 0..9..3}"},
		{"array: 1,3,5", "matrix: {i: [1,3,5]}"},
		{"workdir: /data/x", "work_dir: /data/x"},
		{"script: python train.py", "run: python train.py"},
		{"steps: [{a: b}]", "run"},
		{"attempts: 4", "retry: 3 (attempts after the first)"},
		{"max_retries: 4", "retry: 4"},
		{"exclusive: true", "share: false"},
		{"log_file: \"a {seed}.log\"", "log: \"a {seed}.log\""},
	} {
		var doc yaml.Node
		if err := yaml.Unmarshal([]byte(test.line), &doc); err != nil {
			t.Fatal(err)
		}
		k, v := doc.Content[0].Content[0], doc.Content[0].Content[1]
		if got := ForeignHint(k.Value, v); got != "write "+test.want {
			t.Errorf("%s: %q, want %q", test.line, got, test.want)
		}
	}
}
