package cli

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// gpurun asks before it reruns successful jobs that took more than one GPU hour in total. Any answer
// but yes starts nothing, and Ctrl-C ends the process.
func TestAsksBeforeRerunning(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	file := filepath.Join(dir, "jobs.yaml")
	job := func(epochs string) {
		writeFile(t, file, "jobs:\n  - {name: train, run: \"echo "+epochs+" >>ran\"}\n")
	}
	ran := func() string {
		b, _ := os.ReadFile(filepath.Join(dir, "ran"))
		return strings.Join(strings.Fields(string(b)), " ")
	}
	job("3")
	cmd := exec.Command(gpurunBinary(t), "--sim", "1x24GiB", "jobs.yaml")
	cmd.Dir, cmd.Env = dir, append(os.Environ(), "GPURUN_CLAIMS_DIR="+dir, "HOME="+dir)
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	ledger := filepath.Join(dir, ".gpurun", "jobs.yaml", "ledger.jsonl")
	b, err := os.ReadFile(ledger)
	if err != nil {
		t.Fatal(err)
	}
	writeFile(t, ledger, string(regexp.MustCompile(`"seconds":[0-9.e-]*`).ReplaceAll(b, []byte(`"seconds":7200`))))
	job("4")
	for _, c := range []struct {
		keys string
		exit int
		ran  string
	}{{"\r", 1, "3"}, {"n\r", 1, "3"}, {"\x03", -1, "3"}, {"y\r", 0, "3 4"}} {
		p := startOnPTY(t, dir, "--sim", "1x24GiB", "jobs.yaml")
		p.sees("rerunning 1 job that succeeded before and took 2.0 GPU hours (train: command changed: run: 3 → 4)")
		p.sees("rerun them? [y/N] ")
		p.types(c.keys)
		if got := p.exit(); got != c.exit || ran() != c.ran {
			t.Errorf("%q: exit %d, want %d; ran %q, want %q\n%s", c.keys, got, c.exit, ran(), c.ran, p.text())
		}
	}
}
