package torture

import (
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"
)

// frozen returns a folder on its own file system, and a function that freezes it.
func (p *place) frozen(t *testing.T) (dir string, freeze func()) {
	t.Helper()
	image, dir := filepath.Join(p.dir, "image"), p.mkdir(t, "disk")
	must := func(name string, args ...string) {
		if out, err := exec.Command(name, args...).CombinedOutput(); err != nil {
			t.Skipf("cannot freeze a file system here: %s: %v %s", name, err, out)
		}
	}
	if err := os.WriteFile(image, nil, 0o644); err != nil {
		t.Fatal(err)
	}
	if err := os.Truncate(image, 8<<20); err != nil {
		t.Fatal(err)
	}
	must("mke2fs", "-q", "-F", "-t", "ext4", image)
	must("mount", "-o", "loop", image, dir)
	t.Cleanup(func() { // once the hanging processes are gone
		until(t, "processes to release "+dir, patience, func() bool { return exec.Command("umount", dir).Run() == nil })
	})
	must("fsfreeze", "--freeze", dir)
	must("fsfreeze", "--unfreeze", dir)
	return dir, func() {
		must("fsfreeze", "--freeze", dir)
		t.Cleanup(func() { _ = exec.Command("fsfreeze", "--unfreeze", dir).Run() })
	}
}

// standIn builds gpu/probe's stand-in for NVML, modified to write to a file when utilization is
// read.
func (p *place) standIn(t *testing.T, writes string) (library, setting string) {
	t.Helper()
	library = filepath.Join(p.dir, "libnvidia-ml.so")
	if out, err := exec.Command("sh", "../../gpu/probe/testdata/build.sh", library).CombinedOutput(); err != nil {
		t.Skipf("cannot build the NVML stand-in: %v %s", err, out)
	}
	return library, "NVML_STANDIN=" + p.write(t, "standin", "write="+writes+"\n")
}

// The process that reads the GPUs hangs in the kernel, where not even SIGKILL ends it. Other jobs
// must run, no second reader may start, and gpurun must exit after max_wait although that process
// cannot.
func TestRunContinuesIfDriverHangsInKernel(t *testing.T) {
	if os.Getuid() != 0 {
		t.Skip("only root can freeze a file system")
	}
	if os.Getenv("CGO_ENABLED") == "0" {
		t.Skip("NVML needs cgo")
	}
	t.Parallel()
	l := batch(t, `settings: {poll: 1s, max_wait: 15s}
jobs:
  - {name: first, gpus: 2, gpu_memory: 1GiB, run: ": >DIR/up; while test -d DIR && ! test -e DIR/go; do sleep 0.05; done"}
  - {name: train, gpus: 1, gpu_memory: 1GiB, run: "true"}
  - {name: other, needs: [first], gpus: 0, run: "sleep 2"}
`)
	dir, freeze := l.frozen(t)
	library, setting := l.standIn(t, filepath.Join(dir, "file"))
	r := l.exec([]string{"env", setting, gpurun, "run", "--nvml", library, l.file})
	probes := func() (pids []int) {
		for _, p := range marked(l.mark) {
			if strings.Contains(p.argv, "__probe") {
				pids = append(pids, p.pid)
			}
		}
		return pids
	}
	until(t, "the first job", patience, func() bool { return exists(filepath.Join(l.dir, "up")) || r.over() })
	if r.over() {
		t.Fatal(r.out.String())
	}
	freeze()
	hung := 0
	until(t, "the probe to hang in the kernel", patience, func() bool {
		all := probes()
		i := slices.IndexFunc(all, inKernel)
		if i >= 0 {
			hung = all[i]
		}
		return i >= 0 || r.over()
	})
	if r.over() {
		t.Fatal(r.out.String())
	}
	l.write(t, "go", "")
	for left := allow(patience); !r.wait(100 * time.Millisecond); {
		if left.over(time.Now()) {
			t.Fatalf("gpurun did not end:\n%s", dump(r))
		}
		for _, pid := range probes() {
			if pid != hung {
				t.Errorf("a second process is reading the GPUs: %d", pid)
			}
		}
	}
	if !inKernel(hung) {
		t.Error("the probe no longer hangs, so this test proves nothing")
	}
	l.ended(r, 124)
	l.says(r, "gave up waiting for a GPU: train", "the driver hangs", "2 of 3 done, 1 did not run")
}

// inKernel reports whether a thread of a process is in uninterruptible sleep.
func inKernel(pid int) bool {
	paths, _ := filepath.Glob("/proc/" + strconv.Itoa(pid) + "/task/*/stat")
	for _, path := range paths {
		b, _ := os.ReadFile(path)
		if _, after, ok := strings.Cut(string(b), ") "); ok && after[0] == 'D' {
			return true
		}
	}
	return false
}
