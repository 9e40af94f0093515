package cluster_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"
)

// The commands in docs/guide/cluster.md must work on a real Slurm. The sbatch script and the job file
// under "Slurm arrays" in docs/guide/coming-from.md must start the same commands.
func TestRealGuideCommandsWork(t *testing.T) {
	page := func(name string) string {
		text, err := os.ReadFile("../../../docs/guide/" + name)
		if err != nil {
			t.Fatal(err)
		}
		return string(text)
	}
	blocks := func(text, lang string) (list []string) {
		for _, m := range regexp.MustCompile("(?ms)^```"+lang+"\n(.*?)^```$").FindAllStringSubmatch(text, -1) {
			list = append(list, m[1])
		}
		return list
	}
	guide := page("cluster.md")
	b := slurmSite.New(t, blocks(guide, "yaml")[0])
	b.Drive("count=4\n")
	python, err := filepath.Abs("../../cli/testdata/pages/python.sh")
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Mkdir(filepath.Join(b.Dir, "bin"), 0o755); err != nil {
		t.Fatal(err)
	}
	for name, command := range map[string]string{"gpurun": b.Binary, "python": "sh " + python} {
		if err := os.WriteFile(filepath.Join(b.Dir, "bin", name), []byte("#!/bin/sh\nexec "+command+" \"$@\"\n"), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	b.Setenv("PATH", b.Dir+"/bin:"+os.Getenv("PATH"))
	b.Setenv("HOME", b.Dir)
	b.Setenv("GPURUN_CLAIMS_DIR", b.Dir)
	b.Write("train.py", "")
	if err := os.MkdirAll(filepath.Join(b.Dir, ".config/gpurun"), 0o755); err != nil {
		t.Fatal(err)
	}
	b.Write(".config/gpurun/config.yaml", "cluster: {poll: 1s}\n")
	sh := func(script string) {
		t.Helper()
		// sbatch --wait would sleep for up to ten seconds. Like it, this fails if a job failed.
		script += `
until [ -z "$(squeue -h)" ]; do sleep 0.1; done
! squeue -h -t F,CA,NF,OOM,TO -o %Z | grep -x "$PWD"`
		cmd := exec.Command("bash", "-e", "-c", script)
		cmd.Dir, cmd.WaitDelay = b.Dir, time.Minute // for children that keep the output open
		defer time.AfterFunc(4*time.Minute, func() { _ = cmd.Process.Kill() }).Stop()
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Errorf("%s\n%v\n%s%s", script, err, out, b.Read("wrap.out"))
		}
	}
	started := func(by string) { // since the last call
		t.Helper()
		lines := strings.Fields(b.Read("argv"))
		slices.Sort(lines)
		for i := range lines {
			lines[i], _, _ = strings.Cut(lines[i], "|--out|")
		}
		if got := strings.Join(lines, " "); got != "train.py|--seed|1 train.py|--seed|2 train.py|--seed|3 train.py|--seed|4" {
			t.Errorf("%s started %s", by, got)
		}
		_ = os.Remove(filepath.Join(b.Dir, "argv"))
		_ = os.RemoveAll(filepath.Join(b.Dir, ".gpurun"))
	}

	commands := blocks(guide, "bash")
	sh(commands[0] + "gpurun wait\n" + commands[1])
	started("gpurun --engine slurm")
	sh(strings.NewReplacer("sbatch ", "sbatch -o wrap.out ", "--mem 32G", "--mem 12G" /* the nodes are small */).Replace(commands[2]))
	started("gpurun in an allocation")

	_, pair, _ := strings.Cut(page("coming-from.md"), "\n## Slurm arrays")
	b.Write("train.sbatch", blocks(pair, "bash")[0])
	b.Write("jobs.yaml", blocks(pair, "yaml")[0])
	sh("sbatch train.sbatch")
	started("sbatch")
	sh("gpurun --engine slurm jobs.yaml")
	started("gpurun")
}
