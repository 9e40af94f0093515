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
	for try := 1; ; try++ { // on a busy machine, the chain may be ahead of the scans
		looks, missed := scanChain(t)
		if looks >= 10 && missed <= looks/3 { // more than half were missed when environments were read last
			return
		}
		if try == 5 {
			t.Fatalf("at last, %d of %d scans found no process of the chain, want at most a third of 10 or more", missed, looks)
		}
	}
}

// scanChain scans while a chain of processes runs. It returns the number of scans, and of those that
// found no process of the chain.
func scanChain(t *testing.T) (looks, missed int) {
	t.Helper()
	over := filepath.Join(t.TempDir(), "over")
	uniID := "chain-" + filepath.Base(filepath.Dir(over)) + strconv.Itoa(os.Getpid())
	cmd := exec.Command("sh", "-c", `[ "$1" -gt 0 ] && setsid sh -c "$0" "$0" $(($1 - 1)) "$2" & [ "$1" -gt 0 ] || : >"$2"`)
	cmd.Args = append(cmd.Args, cmd.Args[2], "300", over)
	cmd.Env = append(os.Environ(), UniIDName+"="+uniID)
	if err := cmd.Run(); err != nil {
		t.Fatal(err)
	}
	var c Census
	for limit := time.Now().Add(time.Minute); ; looks++ {
		if time.Now().After(limit) {
			t.Fatal("the chain has not ended within a minute")
		}
		found := c.Tree(uniID, nil, time.Now())
		if _, err := os.Stat(over); err == nil {
			return looks, missed
		}
		if len(found) == 0 {
			missed++ // expected while PIDs wrap around
		}
	}
}
