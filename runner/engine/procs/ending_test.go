package procs

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"gpurun/state/host"
)

func TestEndingKeepsTheEarliestKill(t *testing.T) {
	var e Ending
	if e.Look() != nil || e.Stuck() {
		t.Error("an ending that has not begun is due or stuck")
	}
	e.Begin(time.Hour)
	first := e.killAt
	e.Begin(2 * time.Hour)
	if e.killAt != first {
		t.Error("a second Begin delayed SIGKILL")
	}
	e.Begin(0)
	e.Signal(nil, ID{})
	if !e.killed || e.Stuck() {
		t.Errorf("killed %v, stuck %v, want true, false", e.killed, e.Stuck())
	}
	e.killedAt -= stuckAfter
	if !e.Stuck() {
		t.Errorf("not stuck %v after SIGKILL", stuckAfter)
	}
}

// A job that changes its title while it saves a checkpoint, as with Python's setproctitle, gets one
// SIGTERM. Another program that it executes gets its own.
func TestEachProgramIsSignaledOnce(t *testing.T) {
	next := filepath.Join(t.TempDir(), "next")
	c := exec.Command("sh", "-c", `trap "echo term" TERM; echo began; until [ -e "$0" ]; do sleep 0.02; done
		exec sh -c 'trap "echo again; exit" TERM; echo next; while :; do sleep 0.02; done'`, next)
	out, err := c.StdoutPipe()
	if err := errors.Join(err, c.Start()); err != nil {
		t.Fatal(err)
	}
	defer func() { _ = c.Process.Kill(); _ = c.Wait() }()
	lines := bufio.NewScanner(out)
	hear := func(want string) {
		t.Helper()
		if lines.Scan(); lines.Text() != want {
			t.Fatalf("got %q, want %q", lines.Text(), want)
		}
	}
	p, _ := One(c.Process.Pid)
	var e Ending
	hear("began")
	e.Begin(time.Hour)
	e.Signal([]ID{p.ID}, p.ID)
	hear("term")
	b, _ := os.ReadFile(fmt.Sprintf("/proc/%d/stat", p.PID))
	fields := strings.Fields(string(b[bytes.LastIndexByte(b, ')'):]))
	arguments, _ := strconv.ParseInt(fields[46], 10, 64)
	memory, err := os.OpenFile(fmt.Sprintf("/proc/%d/mem", p.PID), os.O_WRONLY, 0)
	if err != nil {
		t.Skip(err)
	}
	defer memory.Close()
	if _, err := memory.WriteAt([]byte("saving"), arguments); err != nil || !strings.HasPrefix(Cmdline(p.PID), "saving") {
		t.Fatalf("the title is %q, %v", Cmdline(p.PID), err)
	}
	e.Signal([]ID{p.ID}, p.ID)
	if err := os.WriteFile(next, nil, 0o644); err != nil {
		t.Fatal(err)
	}
	hear("next")
	e.Signal([]ID{p.ID}, p.ID)
	hear("again")
}

func TestAlarmFiresWhenDue(t *testing.T) {
	var a Alarm
	if a.C() != nil || a.Due() {
		t.Error("an alarm that is off is due or has a channel")
	}
	a.Set(host.Boottime() + time.Millisecond)
	for !a.Due() {
		<-a.C()
	}
	if left := a.at - host.Boottime(); left > 0 || a.C() != nil {
		t.Errorf("due %v early, or still on", left)
	}
	a.Set(host.Boottime() + time.Hour)
	if a.Due() {
		t.Error("due an hour early")
	}
	a.Off()
}
