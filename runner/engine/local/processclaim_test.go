package local

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"gpurun/gpu"
	"gpurun/runner/engine"
	"gpurun/runner/engine/procs"
)

// standChild claims GPU-0 below args[0] for a command that it runs itself, waits for the command,
// and withdraws the claim. With a second argument, it never reports the command to the keeper, or
// ends before it, as if the command had left that process.
func standChild(args []string) error {
	l, err := openLocal(engine.Config{Claims: args[:1]})
	if err != nil {
		return err
	}
	defer l.Close()
	g := gpu.Grant{UUIDs: []gpu.UUID{"GPU-0"}}
	if _, _, err := l.Claim(context.Background(), "stand", "exec sleep", g); err != nil {
		return err
	}
	cmd := exec.Command("sleep", "1000")
	cmd.Env = append(os.Environ(), "GPURUN_UNI_ID=stand")
	if err := cmd.Start(); err != nil {
		return err
	}
	leaves := len(args) > 1 && args[1] == "leaves"
	if len(args) == 1 || leaves {
		l.Stand("stand", "exec sleep", g, cmd.Process.Pid)
	}
	if leaves {
		l.Outlast("stand")
	}
	l.Withdraw("nobody") // after the answer, the keeper knows the command
	for left := 1; left > 0; {
		l.awaitWithdrawn() // at most a second
		l.mu.Lock()
		left = len(l.overs)
		l.mu.Unlock()
	}
	fmt.Println(cmd.Process.Pid)
	if leaves {
		return nil
	}
	_ = cmd.Wait()
	l.Withdraw("stand")
	return nil
}

// The claim for a command that its caller runs lasts as long as the command, even if the caller or
// the keeper is killed. It ends with the command at the latest.
func TestProcessClaimLastsAsLongAsItsCommand(t *testing.T) {
	for _, killed := range []string{"nobody", "caller", "caller before it has reported the command", "keeper"} {
		t.Run(killed, func(t *testing.T) {
			root := t.TempDir()
			args := []string{"stand child", root}
			if before, ok := strings.CutSuffix(killed, " before it has reported the command"); ok {
				killed, args = before, append(args, "silent")
			}
			cmd, _, said := child(t, args...)
			var pid int
			if _, err := fmt.Fscanln(said, &pid); err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { _ = unix.Kill(pid, unix.SIGKILL) })
			first := await(t, root, 1)[0]
			keeper, _ := procs.One(first.PID)
			if first.PID == cmd.Process.Pid || first.Job != "exec sleep" {
				t.Errorf("the claim is %+v, want one of the keeper", first)
			}
			switch killed {
			case "caller":
				_ = cmd.Process.Kill()
				_ = cmd.Wait()
			case "keeper":
				_ = unix.Kill(keeper.PID, unix.SIGKILL)
				for deadline := time.Now().Add(patience); await(t, root, 1)[0].PID != cmd.Process.Pid; {
					if time.Now().After(deadline) {
						t.Fatal("the caller did not take over the claim")
					}
				}
			}
			if got := await(t, root, 1)[0]; (got.PID == keeper.PID) != (killed != "keeper") {
				t.Errorf("with %s killed, the claim is %+v", killed, got)
			}
			_ = unix.Kill(pid, unix.SIGKILL)
			if killed != "caller" {
				_ = cmd.Wait()
				if left := seen(t, root); len(left) > 0 {
					t.Errorf("the caller has ended, but its claim has not: %+v", left)
				}
			}
			await(t, root, 0)
			for deadline := time.Now().Add(patience); procs.Alive(keeper.ID); time.Sleep(time.Millisecond) {
				if time.Now().After(deadline) {
					t.Fatal("the keeper is still running")
				}
			}
		})
	}
}

// Processes that a command has left hold its claim while they live, unless none of them uses a GPU.
func TestClaimOutlastsItsCommand(t *testing.T) {
	for _, idle := range []bool{false, true} {
		t.Run(fmt.Sprintf("idle %v", idle), func(t *testing.T) {
			if idle {
				t.Setenv(onGPUWithinEnv, "1ms")
			}
			root := t.TempDir()
			cmd, _, said := child(t, "stand child", root, "leaves")
			var pid int
			if _, err := fmt.Fscanln(said, &pid); err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { _ = unix.Kill(pid, unix.SIGKILL) })
			_ = cmd.Wait()
			if !idle {
				await(t, root, 1)
				_ = unix.Kill(pid, unix.SIGKILL)
			}
			await(t, root, 0)
			if idle && unix.Kill(pid, 0) != nil {
				t.Error("the process has been ended")
			}
		})
	}
}
