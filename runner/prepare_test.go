package runner

import (
	"testing"

	"gpurun/jobspec"
)

func TestEarlyValuesMustNotDependOnNode(t *testing.T) {
	at := "/lab/run-\x01gpu\x01"
	for want, r := range map[string]jobspec.Rendered{
		"":                {Commands: []string{at}, Env: []string{at}, WorkDir: "/lab"},
		"the log":         {Stdout: at, Stderr: "/lab/err"},
		"work_dir":        {WorkDir: at},
		"outputs":         {Outputs: []string{"/lab/a", at}},
		"inputs":          {Inputs: []string{at}},
		"metrics":         {Metrics: []jobspec.Metric{{Path: at}}},
		"the config file": {Config: &jobspec.Config{Content: []byte(at)}},
	} {
		text := ""
		if want != "" {
			text = "{gpu} in " + want + " is not known until the cluster chooses a node: use {uni_id} instead, or move it to the command"
		}
		got := ""
		if err := tooEarly(r); err != nil {
			got = err.Error()
		}
		if got != text {
			t.Errorf("got %q, want %q", got, text)
		}
	}
}
