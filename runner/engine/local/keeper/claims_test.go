package keeper

import (
	"os"
	"path/filepath"
	"testing"
	"testing/synctest"
	"time"

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
