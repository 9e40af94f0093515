package jobspec

import (
	"os"
	"path/filepath"
	"testing"
)

// The scheduler checks the files of a job only if its Spec says that it has outputs or inputs.
func TestSpecDeclaresOutputsAndInputs(t *testing.T) {
	file := filepath.Join(t.TempDir(), "jobs.yaml")
	text := `
defaults: {inputs: [d.csv]}
jobs:
  - {name: a, run: x, outputs: ["a.pt"], inputs: null}
  - {name: b, run: x, log: b.log}
  - {name: c, run: x, stdout: c.out, stderr: c.err}
  - {name: d, run: x}
`
	if err := os.WriteFile(file, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
	b, problems := load([]string{file}, Options{})
	if len(problems) > 0 {
		t.Fatal(problems)
	}
	want := []struct{ outputs, inputs, log bool }{{true, false, false}, {false, true, true}, {false, true, true}, {false, true, false}}
	for i, w := range want {
		s := b.Jobs[i].Spec
		if s.HasOutputs != w.outputs || s.HasInputs != w.inputs || s.LogNamed != w.log {
			t.Errorf("%s: got outputs %v, inputs %v, log %v, want %+v", b.Jobs[i].Name, s.HasOutputs, s.HasInputs, s.LogNamed, w)
		}
	}
}
