package jobspec

import (
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

var update = flag.Bool("update", false, "rewrite the expected messages")

// The .want file next to each file in testdata/bad lists the problems as a user sees them.
func TestBadFilesReportExpectedProblems(t *testing.T) {
	t.Chdir("testdata/bad")
	files, err := filepath.Glob("*.yaml")
	if err != nil || len(files) == 0 {
		t.Fatalf("no files: %v", err)
	}
	for _, file := range files {
		t.Run(file, func(t *testing.T) {
			b, problems := load([]string{file}, Options{})
			if b != nil || len(problems) == 0 {
				t.Fatalf("got a batch %v and problems %v, want only problems", b, problems)
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
		})
	}
}

func dirHere(t *testing.T) string {
	t.Helper()
	dir, err := os.Getwd()
	if err != nil {
		t.Fatal(err)
	}
	return dir
}

func problemText(list []Problem) string {
	var b strings.Builder
	for _, p := range list {
		b.WriteString(p.Error() + "\n")
	}
	return b.String()
}
