package procs

import (
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// A process that reuses the PID of an attempt's ended process does not belong to the attempt, and
// neither does its session.
func TestReusedPIDIsNotFollowed(t *testing.T) {
	p := sleeper(t)
	earlier, none := p.ID, ID{}
	earlier.Start -= 100
	for _, c := range []struct {
		name string
		root ID
		want []ID
	}{
		{"same process", p.ID, []ID{p.ID}},
		{"earlier process with the same PID", earlier, nil},
		{"no process", none, nil},
	} {
		var all Census
		if got := all.Tree("of no process", []ID{c.root}, time.Now()); !slices.Equal(got, c.want) {
			t.Errorf("%s: got %v, want %v", c.name, got, c.want)
		}
	}
}

// sleeper starts a process that belongs to no attempt, in its own session, and ends it with the
// test.
func sleeper(t *testing.T) Proc {
	t.Helper()
	cmd := exec.Command("sleep", "1000")
	cmd.SysProcAttr = &unix.SysProcAttr{Setsid: true}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	})
	p, ok := One(cmd.Process.Pid)
	if !ok {
		t.Fatal("the process is not listed")
	}
	return p
}

// Tree must find a chain of processes that each start the next one in a new session and exit,
// although none of them lives as long as a scan of all processes.
func TestChainOfShortProcessesIsFound(t *testing.T) {
	over := filepath.Join(t.TempDir(), "over")
	uniID := "chain-" + filepath.Base(filepath.Dir(over)) + strconv.Itoa(os.Getpid())
	cmd := exec.Command("sh", "-c", `[ "$1" -gt 0 ] && setsid sh -c "$0" "$0" $(($1 - 1)) "$2" & [ "$1" -gt 0 ] || : >"$2"`)
	cmd.Args = append(cmd.Args, cmd.Args[2], "300", over)
	cmd.Env = append(os.Environ(), UniIDName+"="+uniID)
	if err := cmd.Run(); err != nil {
		t.Fatal(err)
	}
	var c Census
	looks, missed := 0, 0
	for limit := time.Now().Add(time.Minute); time.Now().Before(limit); looks++ {
		found := c.Tree(uniID, nil, time.Now())
		if _, err := os.Stat(over); err == nil {
			break
		}
		if len(found) == 0 {
			missed++ // expected while PIDs wrap around
		}
	}
	if missed > looks/3 { // more than half were missed when environments were read last
		t.Errorf("%d of %d scans found no process of the chain", missed, looks)
	}
}
