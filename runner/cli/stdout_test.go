package cli

import (
	"bufio"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// Another process may make a shared pipe non-blocking. If that pipe is full, output must wait.
func TestFullNonBlockingPipeLosesNoOutput(t *testing.T) {
	dir := t.TempDir()
	fifo := filepath.Join(dir, "fifo")
	if err := unix.Mkfifo(fifo, 0o600); err != nil {
		t.Fatal(err)
	}
	jobs := "jobs:\n  - {name: first, run: cat fifo, gpus: 0}\n  - {name: then, run: echo, gpus: 0, needs: first}\n"
	if err := os.WriteFile(filepath.Join(dir, "jobs.yaml"), []byte(jobs), 0o644); err != nil {
		t.Fatal(err)
	}
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	cmd := exec.Command(gpurunBinary(t), "run", "jobs.yaml")
	cmd.Dir, cmd.Stdout, cmd.Stderr = dir, w, os.Stderr
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	out := bufio.NewReader(r)
	for line := ""; !strings.Contains(line, "start "); {
		if line, err = out.ReadString('\n'); err != nil {
			t.Fatal(err)
		}
	}
	fd := int(w.Fd())
	if err := unix.SetNonblock(fd, true); err != nil {
		t.Fatal(err)
	}
	for err == nil {
		_, err = unix.Write(fd, []byte{'\n'})
	}
	w.Close()
	if err := os.WriteFile(fifo, nil, 0); err != nil { // lets the first job end
		t.Fatal(err)
	}
	for deadline := time.Now().Add(time.Minute); ; time.Sleep(10 * time.Millisecond) {
		ledger, _ := os.ReadFile(filepath.Join(dir, ".gpurun", "jobs.yaml", "ledger.jsonl"))
		if strings.Contains(string(ledger), `"state":"succeeded"`) {
			break
		}
		if time.Now().After(deadline) {
			t.Fatal("the first job did not end within a minute")
		}
	}
	rest, _ := io.ReadAll(out)
	if err := cmd.Wait(); err != nil {
		t.Error(err)
	}
	for _, want := range []string{"succeeded   first", "start       then", "succeeded   then"} {
		if !strings.Contains(string(rest), want) {
			t.Errorf("output lacks %q: %q", want, strings.TrimLeft(string(rest), "\n"))
		}
	}
}
