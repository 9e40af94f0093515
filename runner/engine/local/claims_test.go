package local

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"gpurun/gpu"
	"gpurun/gpu/claim"
	"gpurun/runner/engine/procs"
)

// claiming makes the scene's engine publish claims below root.
func claiming(s *scene, root string) *scene {
	roots := []string{root}
	s.engine.Claims, s.engine.holder, s.engine.wisher = roots, claim.NewHolder(roots), claim.NewWisher(roots)
	s.launch.Grant = gpu.Grant{UUIDs: []gpu.UUID{"GPU-0"}, Memory: gpu.GiB}
	return s
}

func (s *scene) claim() []gpu.Claim {
	s.Helper()
	others, warnings, err := s.engine.Claim(context.Background(), s.launch.UniID, s.launch.Job, s.launch.Grant)
	if err != nil || len(warnings) > 0 || others == nil {
		s.Fatalf("Claim = %+v, %q, %v", others, warnings, err)
	}
	return others
}

// seen returns the claims below root as seen by another user of the host.
func seen(t *testing.T, root string) []gpu.Claim {
	t.Helper()
	claims, warnings := claim.NewReader([]string{root}).Others(context.Background())
	if len(warnings) > 0 {
		t.Errorf("reading the claims: warnings %q", warnings)
	}
	return claims
}

// await waits until n claims are visible.
func await(t *testing.T, root string, n int) []gpu.Claim {
	t.Helper()
	for deadline := time.Now().Add(patience); ; time.Sleep(5 * time.Millisecond) {
		got := seen(t, root)
		if len(got) == n {
			return got
		}
		if time.Now().After(deadline) {
			t.Fatalf("after a minute, claims are %+v, want %d", got, n)
		}
	}
}

func TestClaimOutlivesRunner(t *testing.T) {
	root := t.TempDir()
	s := claiming(newScene(t, "read x < fifo"), root)
	if others := s.claim(); len(others) > 0 {
		t.Errorf("the first claim sees %+v, want none", others)
	}
	s.start()
	s.engine.Close()
	got := await(t, root, 1)[0]
	if got.PID != s.keeper().PID || got.Attempt != s.launch.UniID || got.Job != "first" {
		t.Errorf("without the runner, the claim is %+v, want one of the keeper", got)
	}
	s.open()
	claiming(s, root)
	a := s.attempt()
	a.Grant = s.launch.Grant
	s.engine.Adopt(a)
	if ev := s.next(); ev.Running == nil {
		t.Fatalf("got %+v, want Running", ev)
	}
	if others, _ := s.engine.Others(context.Background(), nil); len(others) > 0 || others == nil {
		t.Errorf("the run that adopted the attempt sees %+v, want no other claims", others)
	}
	s.goOn()
	s.ended()
	if left := seen(t, root); len(left) != 1 {
		t.Errorf("after the end, claims are %+v, want one for the next attempt", left)
	}
	s.engine.Yield(s.launch.UniID, s.launch.Grant.UUIDs)
	await(t, root, 0)
}

func TestUnlaunchedClaimIsReleased(t *testing.T) {
	root := t.TempDir()
	s := claiming(newScene(t, "true"), root)
	s.claim()
	s.engine.Withdraw(s.launch.UniID)
	await(t, root, 0)
	s.claim()
	if got := seen(t, root); len(got) != 1 {
		t.Errorf("claims are %+v, want one", got)
	}
	s.engine.Close()
	await(t, root, 0)
}

func TestSharedClaimsAddUpWithRivals(t *testing.T) {
	root := t.TempDir()
	a, b := claiming(newScene(t, "true"), root), claiming(newScene(t, "true"), root)
	b.claim()
	var wg sync.WaitGroup
	for i := range 20 {
		wg.Go(func() {
			uniID := a.launch.UniID + strconv.Itoa(i)
			others, _, err := a.engine.Claim(context.Background(), uniID, "many", a.launch.Grant)
			if err != nil || len(others) != 1 || others[0].Attempt != b.launch.UniID {
				t.Errorf("claim %d sees %+v, %v, want only the rival", i, others, err)
			}
			if others, _ := a.engine.Others(context.Background(), nil); len(others) != 1 {
				t.Errorf("after claim %d, others are %+v, want only the rival", i, others)
			}
			if i%2 == 0 {
				a.engine.Withdraw(uniID)
			}
		})
	}
	wg.Wait()
	await(t, root, 11)
	a.engine.Close()
	await(t, root, 1)
}

// A claim ends with its keeper, because no job has the claim's file open. The runner claims again
// for the surviving job.
func TestClaimSurvivesKilledKeeper(t *testing.T) {
	root := t.TempDir()
	s := claiming(newScene(t, "read x < fifo"), root)
	s.claim()
	s.start()
	first := s.keeper()
	longest := watchClaims(t, root)
	if err := unix.Kill(first.PID, unix.SIGKILL); err != nil {
		t.Fatal(err)
	}
	for deadline := time.Now().Add(patience); ; {
		got := await(t, root, 1)[0]
		if got.PID != first.PID && got.Attempt == s.launch.UniID {
			break
		}
		if time.Now().After(deadline) {
			t.Fatalf("the runner did not claim again; the claim is %+v", got)
		}
	}
	t.Logf("no claim was visible for %s", longest())
	s.goOn()
	if e := s.ended(); !e.Lost {
		t.Errorf("ended as %+v, want lost", e)
	}
	await(t, root, 0)
}

// Until another keeper has the claim, the runner holds it itself.
func TestRunnerHoldsClaimIfNoKeeperStarts(t *testing.T) {
	root := t.TempDir()
	s := claiming(newScene(t, "read x < fifo"), root)
	s.claim()
	s.start()
	s.engine.mu.Lock()
	s.engine.Dir = s.dir + "/missing"
	s.engine.mu.Unlock()
	s.killKeeper()
	held := func() bool { // readers of this process ignore its own claims
		files, _ := filepath.Glob(root + "/*/*.claim")
		return slices.ContainsFunc(files, func(f string) bool {
			text, _ := os.ReadFile(f)
			return strings.Contains(string(text), fmt.Sprintf(`"pid":%d,`, os.Getpid()))
		})
	}
	for deadline := time.Now().Add(patience); !held(); time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatal("the runner does not hold the claim")
		}
	}
	s.goOn()
	s.ended()
	for deadline := time.Now().Add(patience); held(); time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatal("the runner still holds the claim")
		}
	}
}

// watchChild watches the claims below args[0] until stdin is closed, and prints the longest time
// without any.
func watchChild(args []string) error {
	var enough atomic.Bool
	go func() {
		_, _ = os.Stdin.Read(make([]byte, 1))
		enough.Store(true)
	}()
	r := claim.NewReader(args)
	fmt.Println("looking")
	var longest time.Duration
	for last := time.Now(); !enough.Load(); {
		if claims, _ := r.Others(context.Background()); len(claims) > 0 {
			longest, last = max(longest, time.Since(last)), time.Now()
		}
	}
	fmt.Println(longest)
	return nil
}

// watchClaims starts a watchChild. The returned function ends the child and returns its output.
func watchClaims(t *testing.T, root string) func() string {
	t.Helper()
	_, in, said := child(t, "watch child", root)
	if line, err := said.ReadString('\n'); err != nil {
		t.Fatalf("the watcher printed %q, %v", line, err)
	}
	return func() string {
		in.Close()
		line, _ := said.ReadString('\n')
		return strings.TrimSpace(line)
	}
}

// If the keeper dies between claim and launch, the attempt must not run, because another run may
// have claimed the GPU.
func TestNoLaunchWithoutItsClaim(t *testing.T) {
	root := t.TempDir()
	s := claiming(newScene(t, "touch ran"), root)
	s.claim()
	keeper := seen(t, root)[0].PID
	if err := unix.Kill(keeper, unix.SIGKILL); err != nil {
		t.Fatal(err)
	}
	await(t, root, 0)
	for deadline := time.Now().Add(patience); ; time.Sleep(time.Millisecond) {
		s.engine.mu.Lock()
		own := s.engine.own
		s.engine.mu.Unlock()
		if own == nil {
			break
		}
		if time.Now().After(deadline) {
			t.Fatal("the engine did not notice the keeper's death")
		}
	}
	s.engine.Launch(s.launch)
	if e := s.ended(); !e.Lost || !e.Void {
		t.Errorf("ended as %+v, want lost and void", e)
	}
	if _, err := os.Stat(s.launch.WorkDir + "/ran"); err == nil {
		t.Error("the job ran without a claim")
	}
}

// If runner and keeper die, the next run claims for the jobs it adopts. If that run dies, too, its
// keeper holds the claim until the job ends.
func TestClaimOfOrphanLastsAsLongAsItsJob(t *testing.T) {
	root := t.TempDir()
	s := claiming(newScene(t, "read x < fifo"), root)
	s.claim()
	s.start()
	s.engine.Close()
	s.killKeeper()
	await(t, root, 0)
	s.open()
	claiming(s, root)
	grant := s.launch.Grant
	a := s.attempt()
	a.Grant = grant
	s.engine.Adopt(a)
	await(t, root, 1)
	s.engine.Close()
	if got := seen(t, root); len(got) != 1 {
		t.Errorf("without a runner, the claims are %+v, want one", got)
	}
	s.goOn()
	await(t, root, 0)
}

func TestTakenMemoryIsThatOfTheHoldersTree(t *testing.T) {
	self, _ := procs.One(os.Getpid())
	stray := exec.Command("sleep", "60") // its parent holds no claim
	stray.Env = []string{"PATH=" + os.Getenv("PATH"), procs.UniIDName + "=s"}
	if err := stray.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { stray.Process.Kill(); stray.Wait() })
	readings := []gpu.Reading{
		{UUID: "GPU-0", Processes: []gpu.Process{{PID: self.PID, Memory: 3}, {PID: 1, Memory: 50}, {PID: self.PID, Memory: -1}}},
		{UUID: "GPU-1", Processes: []gpu.Process{{PID: self.PID, Memory: 30}}},
		{UUID: "GPU-2", Processes: []gpu.Process{{PID: self.PID, Memory: 5}}},
		{UUID: "GPU-3", Processes: []gpu.Process{{PID: stray.Process.Pid, Memory: 7}, {PID: 1, Memory: 5}}},
	}
	claims := []gpu.Claim{
		{UUID: "GPU-0", PID: self.Parent, Memory: 10, Attempt: "a"},
		{UUID: "GPU-1", PID: self.Parent, Memory: 10, Attempt: "a"},
		{UUID: "GPU-2", PID: self.Parent, Memory: 10, Attempt: "a"},
		{UUID: "GPU-2", PID: self.Parent, Memory: 10, Attempt: "b"},
		{UUID: "GPU-1", PID: 1 << 30, Memory: 10, Attempt: "c"},
		{UUID: "GPU-3", PID: 1 << 30, Memory: 10, Attempt: "s"},
		{UUID: "GPU-3", PID: 1 << 30, Memory: 10, Attempt: ""},
	}
	fillTaken(claims, readings)
	var got []gpu.Bytes
	for _, c := range claims {
		got = append(got, c.Taken)
	}
	if want := []gpu.Bytes{3, 10, 0, 0, 0, 7, 0}; !slices.Equal(got, want) {
		t.Errorf("taken memory is %v, want %v", got, want)
	}
}
