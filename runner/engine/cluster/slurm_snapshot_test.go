package cluster_test

import (
	"fmt"
	"testing"
)

// Jobs on a node run in the snapshot of the code from the beginning of the run, and their outputs are
// copied back.
func TestRealJobsRunInTheSnapshot(t *testing.T) {
	b := slurmSite.New(t, "")
	b.Write("jobs.yaml", fmt.Sprintf(`
settings: {engine: slurm, snapshot: true, cluster: {poll: 2s}}
jobs: [{name: a, gpus: 0, outputs: [out.txt], run: 'echo up >%[1]s/up; until [ -e %[1]s/go ]; do sleep 0.1; done; sh code.sh'}]
`, b.Dir))
	b.Write("code.sh", "echo one >out.txt; pwd >>out.txt\n")
	cmd, out := b.Start("jobs.yaml")
	b.Wait("up")
	b.Write("code.sh", "echo two >out.txt\n")
	b.Write("go", "")
	_ = b.Finish(cmd)
	b.Says(out.String(), "1 of 1 done")
	b.Says(b.Read("out.txt"), "one\n"+b.Dir+"/.gpurun/jobs.yaml/")
}
