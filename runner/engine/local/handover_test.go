package local

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"testing"
	"time"

	"gpurun/gpu"
	"gpurun/runner/engine"
	"gpurun/runner/engine/procs"
)

// A rival that keeps claiming a GPU must not get it between a run's consecutive attempts, but must
// get it when the run yields it.
func TestRivalGetsNothingInHandOvers(t *testing.T) {
	const handOvers = 200
	root := t.TempDir()
	a, b := claiming(newScene(t, "true"), root), claiming(newScene(t, "true"), root)
	a.claim()
	enough, done := make(chan struct{}), make(chan int)
	go func() {
		tries := 0
		defer func() { done <- tries }()
		for ; ; tries++ {
			uniID := fmt.Sprint("rival-", tries)
			others, _, err := b.engine.Claim(context.Background(), uniID, "rival", b.launch.Grant)
			if err != nil {
				t.Errorf("the rival's claim %d: %v", tries, err)
				return
			}
			select {
			case <-enough:
				if len(others) == 0 {
					return
				}
			default:
				if len(others) == 0 {
					t.Errorf("the rival got the GPU with claim %d", tries)
					return
				}
			}
			b.engine.Withdraw(uniID)
		}
	}()
	grant := a.launch.Grant
	for i := range handOvers {
		a.engine.Launch(a.launch)
		a.ended()
		last := a.launch.UniID
		a.launch = a.prepare(strconv.Itoa(i), "true")
		a.launch.Grant = grant
		if others, _, err := a.engine.Claim(context.Background(), a.launch.UniID, "next", grant); err != nil || len(others) > 0 {
			t.Fatalf("hand-over %d: %+v, %v", i, others, err)
		}
		a.engine.Yield(last, grant.UUIDs)
	}
	a.engine.Launch(a.launch)
	a.ended()
	close(enough)
	a.engine.Yield(a.launch.UniID, grant.UUIDs)
	t.Logf("%d hand-overs, %d claims of the rival", handOvers, <-done)
}

func TestDevicesAreYieldedOneByOne(t *testing.T) {
	root := t.TempDir()
	s := claiming(newScene(t, "true"), root)
	s.launch.Grant.UUIDs = []gpu.UUID{"GPU-0", "GPU-1", "GPU-2"}
	s.claim()
	s.engine.Launch(s.launch)
	s.ended()
	await(t, root, 3)
	s.engine.Yield(s.launch.UniID, []gpu.UUID{"GPU-1"})
	await(t, root, 2)
	s.engine.Yield(s.launch.UniID, []gpu.UUID{"GPU-0"})
	s.engine.Yield(s.launch.UniID, []gpu.UUID{"GPU-2"})
	await(t, root, 0)
}

// runnerChild is a run whose job has ended and whose next job has no claim yet. args are its folder
// and the root of the claims.
func runnerChild(args []string) error {
	l, err := openLocal(engine.Config{Dir: args[0], Claims: args[1:]})
	if err != nil {
		return err
	}
	dir, grant := filepath.Join(args[0], "first"), gpu.Grant{UUIDs: []gpu.UUID{"GPU-0"}}
	if err := os.Mkdir(dir, 0o755); err != nil {
		return err
	}
	if _, _, err := l.Claim(context.Background(), "first", "first", grant); err != nil {
		return err
	}
	l.Launch(engine.Launch{
		Identity: engine.Identity{UniID: "first", Dir: dir, Grace: patience, Grant: grant},
		Command:  engine.Command{Commands: []string{"true"}, Env: os.Environ(), WorkDir: dir},
	})
	for ev := range l.Events() {
		if ev.Ended != nil {
			fmt.Println("ended")
		}
	}
	return nil
}

// A runner killed during a hand-over must leave neither a claim nor a keeper.
func TestRunnerKilledInHandOverLeavesNoClaim(t *testing.T) {
	root, dir := t.TempDir(), t.TempDir()
	cmd, _, said := child(t, "runner child", dir, root)
	if line, err := said.ReadString('\n'); line != "ended\n" {
		t.Fatalf("the runner printed %q, %v", line, err)
	}
	keeper, _ := procs.One(await(t, root, 1)[0].PID)
	if err := cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	began := time.Now()
	await(t, root, 0)
	t.Logf("the claim ended %v after the runner's death", time.Since(began).Round(time.Millisecond))
	for deadline := time.Now().Add(patience); procs.Alive(keeper.ID); time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatal("the keeper is still running")
		}
	}
}
