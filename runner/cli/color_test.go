package cli

import (
	"path/filepath"
	"regexp"
	"testing"
)

func TestViewRedrawsWithoutColors(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	writeFile(t, filepath.Join(dir, "jobs.yaml"), `
settings: {grace: 1s}
jobs:
  - {name: a, gpus: 0, run: "exit 1"}
  - {name: b, gpus: 0, run: "echo epoch 7; exec sleep 60"}
`)
	p := startOnPTY(t, dir, "--no-color", "jobs.yaml")
	p.sees("epoch 7")
	p.sees("\x1b[J")
	p.types("\x03")
	p.sees("Ctrl-C again")
	p.types("\x03")
	p.exit()
	p.uncolored(t)

	p = startOnPTY(t, dir, "--no-color", "stop", "jobs.yaml") // refused before the command begins
	p.sees("pass the job file with --file")
	p.exit()
	p.uncolored(t)
}

func (p *onPTY) uncolored(t *testing.T) {
	t.Helper()
	if m := regexp.MustCompile(`\x1b\[[0-9;]*m`).FindString(p.text()); m != "" {
		t.Errorf("got a color despite --no-color: %q", m)
	}
}
