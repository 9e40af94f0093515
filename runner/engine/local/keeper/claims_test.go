package keeper

import (
	"net"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"golang.org/x/sys/unix"

	"gpurun/gpu"
	"gpurun/gpu/claim"
	"gpurun/runner/engine/local/wire"
)

// A long hand-over is visible to other runs, and one that never finishes is ended.
func TestHandOverIsBounded(t *testing.T) {
	root := t.TempDir()
	synctest.Test(t, func(t *testing.T) {
		c := &claims{holder: claim.NewHolder([]string{root})}
		s := c.begin("u", new(wire.Link), nil)
		if _, _, err := c.holder.Claim(t.Context(), claim.Subject{UniID: "u", Job: "job", Grant: gpu.Grant{UUIDs: []gpu.UUID{"GPU-0"}}}); err != nil {
			t.Fatal(err)
		}
		s.made = true
		c.launched("u")
		if !c.handOver("u") {
			t.Fatal("handOver did not keep the claim, although the run exists")
		}
		look := func() string {
			synctest.Wait()
			b, err := os.ReadFile(claimFile(t, root))
			if err != nil {
				return "nothing"
			}
			return string(b)
		}
		before := look()
		time.Sleep(keepEvery)
		c.holder.Keep()
		if after := look(); after == before || after == "nothing" {
			t.Errorf("after %v, the claim is %s, want it to show the hand-over", keepEvery, after)
		}
		time.Sleep(handOverFor - keepEvery)
		if after := look(); after != "nothing" || c.has("u") {
			t.Errorf("after %v, the claim is %s, want nothing", handOverFor, after)
		}
	})
}

// A claim that is withdrawn while it is being made is over once it has ended, however often it is
// withdrawn. Until then, the keeper stays.
func TestWithdrawnClaimIsOverOnceItHasEnded(t *testing.T) {
	k, err := newKeeper()
	if err != nil {
		t.Fatal(err)
	}
	root := t.TempDir()
	rival, err := os.Open(root)
	if err != nil {
		t.Fatal(err)
	}
	if err := unix.Flock(int(rival.Fd()), unix.LOCK_EX); err != nil { // the claim waits for this lock
		t.Fatal(err)
	}
	here, there := net.Pipe()
	l := wire.NewLink(here, func(f func()) { go f() })
	t.Cleanup(l.Close)
	grant := gpu.Grant{UUIDs: []gpu.UUID{"GPU-0"}}
	k.handle(l, &wire.Message{Op: wire.MakeClaim, UniID: "u", Claim: &wire.Claim{Job: "job", Grant: grant, Roots: []string{root}}})
	for range 2 {
		k.handle(l, &wire.Message{Op: wire.Withdraw, UniID: "u"})
	}
	k.mu.Lock()
	if k.over() {
		t.Error("the keeper exits while it makes a claim")
	}
	k.mu.Unlock()
	rival.Close()
	var ops []string
	_ = wire.NewLink(there, func(func()) {}).Receive(func(m *wire.Message) {
		if ops = append(ops, m.Op); m.Op == wire.Withdrawn {
			if f := claimFile(t, root); f != "" {
				t.Errorf("the claim is reported as withdrawn while %s exists", f)
			}
			there.Close()
		}
	})
	if want := []string{wire.Claimed, wire.Withdrawn}; !slices.Equal(ops, want) {
		t.Errorf("the keeper sent %v, want %v", ops, want)
	}
}

// claimFile returns this user's only file below root, or "".
func claimFile(t *testing.T, root string) string {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(root, "*", "*"))
	if err != nil || len(files) > 1 {
		t.Fatalf("claims are %q, %v", files, err)
	}
	if len(files) == 0 {
		return ""
	}
	return files[0]
}
