package jobspec

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"gpurun/jobspec/lint"
)

// A command with another problem may well use the parameter.
func TestBrokenCommandLeavesNoParameterUnused(t *testing.T) {
	for keys, want := range map[string]string{
		`run: "x {sample} {sampel}"`: "unknown variable {sampel}",
		`rnu: "x {sample}"`:          "this job has no run",
	} {
		_, problems := load([]string{writeJobFile(t, "jobs.yaml", jobWith("matrix: {sample: [1, 2], lr: [1, 2]}\n"+keys))}, Options{Lint: true})
		if got := problemText(problems); !strings.Contains(got, want) || strings.Contains(got, "never passed") {
			t.Errorf("%s: got %s, want only %q", keys, got, want)
		}
	}
}

// The .want file next to each file in testdata/lint lists its errors or, if there are none, its warnings.
func TestLintsFindExpectedProblems(t *testing.T) {
	t.Chdir("testdata/lint")
	t.Setenv("BASH_ENV", "")
	t.Setenv("CONDA_EXE", "")
	files, err := filepath.Glob("*.yaml")
	if err != nil || len(files) == 0 {
		t.Fatalf("no files: %v", err)
	}
	for _, file := range files {
		t.Run(file, func(t *testing.T) {
			b, problems := load([]string{file}, Options{Lint: true})
			if b != nil {
				problems = b.Warnings
			}
			got := strings.ReplaceAll(problemText(problems), dirHere(t), "DIR")
			want := strings.TrimSuffix(file, ".yaml") + ".want"
			if *update {
				if err := os.WriteFile(want, []byte(got), 0o666); err != nil {
					t.Fatal(err)
				}
			}
			text, err := os.ReadFile(want)
			if err != nil || got != string(text) {
				t.Errorf("got (run with -update to accept it):\n%s\nwant:\n%s", got, text)
			}
			if _, problems := load([]string{file}, Options{}); len(problems) > 0 {
				t.Errorf("the batch does not load without lints:\n%s", problemText(problems))
			}
			allowed := Options{Lint: true, Flags: map[string]string{"allow": strings.Join(lint.Names, ",")}}
			if b, problems := load([]string{file}, allowed); len(problems) > 0 || strings.Contains(problemText(b.Warnings), "[") {
				t.Errorf("findings although every lint is allowed:\n%s", problemText(problems))
			}
		})
	}
}
