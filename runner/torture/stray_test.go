package torture

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// A driver is a batch on the NVML stand-in, whose two GPUs behave as configured.
type driver struct {
	*lane
	library, setting string
}

func onDriver(t *testing.T, text string) *driver {
	t.Helper()
	if os.Getenv("CGO_ENABLED") == "0" {
		t.Skip("NVML needs cgo")
	}
	d := &driver{lane: batch(t, text)}
	d.library, d.setting = d.standIn(t, os.DevNull)
	return d
}

// behaves sets how the stand-in behaves from now on.
func (d *driver) behaves(lines ...string) {
	d.t.Helper()
	path := d.write(d.t, "standin.new", strings.Join(lines, "\n")+"\n")
	if err := os.Rename(path, strings.TrimPrefix(d.setting, "NVML_STANDIN=")); err != nil {
		d.t.Fatal(err)
	}
}

func (d *driver) run(flags ...string) *runner {
	return d.exec(append([]string{"env", d.setting, gpurun, "run", "--nvml", d.library, d.file}, flags...))
}

// until waits until a file in the lane's folders contains a text.
func (d *driver) until(r *runner, path, text string) string {
	d.t.Helper()
	found := ""
	until(d.t, text+" in "+path, patience, func() bool {
		b, _ := os.ReadFile(path)
		found = strings.TrimSpace(string(b))
		return strings.Contains(string(b), text) || r.over()
	})
	if r.over() {
		d.t.Fatalf("gpurun has ended:\n%s", r.out.String())
	}
	return found
}

// A job that uses a GPU it was not granted is ended immediately and not retried, and both GPUs are
// named. If strays are allowed, there is only a warning.
func TestStrayJobIsEndedAndNotRetried(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name, allow string
		code        int
		says        []string
	}{
		{"ended", "", 1, []string{"warning     stopping train: process ", " uses GPU 1, but the job was assigned GPU 0; remove the pin",
			"failed      train: process ", "(stray_gpu)", "1 of 2 done, 1 failed"}},
		{"allowed", ", allow: [stray]", 0, []string{"warning     train: process ", " uses GPU 1, but the job was assigned GPU 0", "2 of 2 done"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			d := onDriver(t, `settings: {poll: 1s, grace: 2s}
jobs:
  - {name: train, gpu_ids: [0], gpu_memory: 1GiB, retry: 3`+c.allow+`, run: "echo $$ >DIR/pid; while test -d DIR && ! test -e DIR/go; do sleep 0.05; done"}
  - {name: both, gpus: 2, gpu_memory: 1GiB, run: "true"}
`)
			r := d.run()
			pid := d.until(r, filepath.Join(d.dir, "pid"), "\n")
			d.behaves(fmt.Sprintf("procs.0=%s:1000", pid), fmt.Sprintf("procs.1=%s:500", pid))
			d.until(r, filepath.Join(d.state, "run.log"), "uses GPU 1")
			if c.allow == "" {
				d.until(r, filepath.Join(d.state, "ledger.jsonl"), `"stray_gpu"`)
			}
			d.behaves("")
			d.write(t, "go", "")
			if !r.wait(patience) {
				t.Fatal(dump(r))
			}
			d.ended(r, c.code)
			d.says(r, c.says...)
			if n := len(readLedger(t, filepath.Join(d.state, "ledger.jsonl")).order); n != 2 {
				t.Errorf("%d attempts, want 2", n)
			}
			noneLeft(t, d.mark)
		})
	}
}
