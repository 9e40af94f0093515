package jobspec

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// testdata/sweeps has published sweeps that each needed their own script: parameters derived from
// others, rows of a file, random search, values from the command line. The .want file next to each job
// file lists its commands. A first line "# -p …" gives parameters on the command line.
func TestPublishedSweepsExpandAsExpected(t *testing.T) {
	t.Chdir("testdata/sweeps")
	files, err := filepath.Glob("*.yaml")
	if err != nil || len(files) < 15 {
		t.Fatalf("%d files: %v", len(files), err)
	}
	for _, file := range files {
		t.Run(file, func(t *testing.T) {
			text, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			opts := Options{Lint: true, Flags: map[string]string{"max-concurrent": "4", "allow": "missing"}}
			if first, _, _ := strings.Cut(string(text), "\n"); strings.HasPrefix(first, "# -p ") {
				for _, p := range strings.Split(first, " -p ")[1:] {
					opts.Params = append(opts.Params, strings.TrimSpace(p))
				}
			}
			b, problems := load([]string{file}, opts)
			if b == nil {
				t.Fatal(problemText(problems))
			}
			if len(b.Warnings) > 0 {
				t.Errorf("got warnings:\n%s", problemText(b.Warnings))
			}
			if lines := strings.Count(string(text), "\n"); lines > 10 {
				t.Errorf("the file has %d lines, want at most 10", lines)
			}
			var got strings.Builder
			for i := range b.Jobs {
				j := &b.Jobs[i]
				r, err := b.Render(j, Runtime{UniID: "u", Attempt: 1, GPUs: []int{0}, Log: "/log"})
				if err != nil {
					t.Fatal(err)
				}
				fmt.Fprintf(&got, "%s: %s\n", j.Name, strings.ReplaceAll(strings.Join(r.Commands, "; "), dirHere(t), "DIR"))
				if r.Config != nil {
					got.WriteString("  " + strings.ReplaceAll(strings.TrimSpace(string(r.Config.Content)), "\n", "; ") + "\n")
				}
			}
			want := strings.TrimSuffix(file, ".yaml") + ".want"
			if *update {
				if err := os.WriteFile(want, []byte(got.String()), 0o666); err != nil {
					t.Fatal(err)
				}
			}
			if text, err := os.ReadFile(want); err != nil || got.String() != string(text) {
				t.Errorf("got (run with -update to accept it):\n%s\nwant:\n%s", got.String(), text)
			}
		})
	}
}
