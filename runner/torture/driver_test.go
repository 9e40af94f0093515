package torture

import (
	"fmt"
	"path/filepath"
	"strings"
	"testing"
)

// A GPU that is lost when the run starts still counts: no job becomes impossible, and it is used
// once it responds.
func TestGPULostAtStartIsUsedLater(t *testing.T) {
	t.Parallel()
	d := onDriver(t, `settings: {poll: 1s}
jobs:
  - {name: both, gpus: 2, gpu_memory: 1GiB, run: "echo $CUDA_VISIBLE_DEVICES"}
`)
	d.behaves("err.handle.1=15")
	r := d.run()
	d.until(r, filepath.Join(d.state, "run.log"), "GPU 1 does not answer, so no job starts on it until it does: GPU is lost")
	d.behaves("")
	if !r.wait(patience) {
		t.Fatal(dump(r))
	}
	d.ended(r, 0)
	d.says(r, "warning     GPU 1 does not answer", "warning     GPU 1 answers again", "1 of 1 done")
}

// A driver that fails until it is reinitialized does not stop a batch.
func TestDriverIsReinitialized(t *testing.T) {
	t.Parallel()
	d := onDriver(t, `settings: {poll: 1s}
jobs:
  - {name: first, gpu_memory: 20GiB, gpus: 2, run: ": >DIR/up; while test -d DIR && ! test -e DIR/go; do sleep 0.05; done"}
  - {name: second, gpu_memory: 20GiB, run: "true"}
`)
	r := d.run()
	until(t, "the first job", patience, func() bool { return exists(filepath.Join(d.dir, "up")) || r.over() })
	d.behaves("stale=1")
	d.until(r, filepath.Join(d.state, "run.log"), "no GPU answers: unknown driver error")
	d.behaves("")
	d.write(t, "go", "")
	if !r.wait(patience) {
		t.Fatal(dump(r))
	}
	d.ended(r, 0)
	d.says(r, "warning     cannot read the GPUs", "2 of 2 done")
}

// A driver that returns endless process lists does not stop a batch.
func TestEndlessListsDoNotStopABatch(t *testing.T) {
	t.Parallel()
	d := onDriver(t, `settings: {poll: 1s}
jobs:
  - {name: a, gpu_memory: 20GiB, run: "true"}
`)
	d.behaves("endless.0=1", "endless.1=1")
	r := d.run()
	if !r.wait(patience) {
		t.Fatal(dump(r))
	}
	d.ended(r, 0)
}

// gpurun plan refuses jobs that no GPU could ever run.
func TestPlanRefusesImpossibleJobs(t *testing.T) {
	t.Parallel()
	d := onDriver(t, "jobs:\n  - {name: eight, gpus: 8, gpu_memory: 1GiB, run: \"true\"}\n")
	d.behaves("")
	r := d.exec([]string{"env", d.setting, gpurun, "plan", "--nvml", d.library, d.file})
	r.wait(patience)
	d.ended(r, 2)
	d.says(r, "needs 8 GPUs, but this machine has 2", "no job can run because of 1 problem")
	r = d.exec([]string{"env", d.setting, gpurun, "plan", "--json", "--nvml", d.library, d.file})
	r.wait(patience)
	d.ended(r, 2)
	d.says(r, "needs 8 GPUs, but this machine has 2")
}

// A memory peak of a few seconds is noticed. Another process on the GPU is reported when it
// arrives, and again if the job then runs out of memory.
func TestPeakAndNewProcessAreNoticed(t *testing.T) {
	t.Parallel()
	d := onDriver(t, `jobs:
  - {name: train, gpu_ids: [0], gpu_memory: 1GiB, run: "echo $$ >DIR/pid; while test -d DIR && ! test -e DIR/go; do sleep 0.05; done; echo CUDA out of memory; exit 1"}
`)
	d.behaves("")
	r := d.run()
	pid := d.until(r, filepath.Join(d.dir, "pid"), "\n")
	d.behaves("free.0=22000", fmt.Sprintf("procs.0=%s:1000", pid))
	d.untilStatus(r, "1000 MiB")
	d.behaves("free.0=3000", fmt.Sprintf("procs.0=%s:20480", pid))
	d.untilStatus(r, "20 GiB")
	d.behaves("free.0=2000", fmt.Sprintf("procs.0=%s:1000,1:20480", pid))
	d.until(r, filepath.Join(d.state, "run.log"), "started on GPU 0")
	d.write(t, "go", "")
	if !r.wait(patience) {
		t.Fatal(dump(r))
	}
	d.ended(r, 1)
	d.says(r, "(pid 1, 20 GiB) started on GPU 0, next to train", "oom train: exit 1, meanwhile, your own ", "peak 20 GiB")
}

// untilStatus waits until gpurun status prints a text about the live run.
func (d *driver) untilStatus(r *runner, text string) {
	d.t.Helper()
	var out []byte
	until(d.t, text, patience, func() bool {
		out, _ = d.command("status", "--file", d.file)
		return strings.Contains(string(out), text) || r.over()
	})
	if r.over() {
		d.t.Fatalf("gpurun has ended:\n%s\n%s", r.out.String(), out)
	}
}
