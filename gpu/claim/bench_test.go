package claim

import (
	"context"
	"fmt"
	"os"
	"testing"

	"gpurun/gpu"
)

// BenchmarkClaim measures a claim while the holder holds 16 others.
func BenchmarkClaim(b *testing.B) {
	root, err := os.MkdirTemp("", "claims")
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { os.RemoveAll(root) })
	h := Open([]string{root})
	b.Cleanup(h.Close)
	ctx, g := context.Background(), gpu.Grant{UUIDs: []gpu.UUID{"GPU-0"}}
	for i := range 16 {
		if _, _, err := h.Claim(ctx, Subject{UniID: fmt.Sprint("held-", i), Job: "held", Grant: g}); err != nil {
			b.Fatal(err)
		}
	}
	for i := 0; b.Loop(); i++ {
		uniID := fmt.Sprint("new-", i)
		if _, _, err := h.Claim(ctx, Subject{UniID: uniID, Job: "new", Grant: g}); err != nil {
			b.Fatal(err)
		}
		h.Release(uniID)
	}
}
