package claim

import (
	"context"
	"errors"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"gpurun/gpu"
)

// A hanging folder is waited for once, and nothing starts that time, because its user's claims are
// unknown. From then on it is skipped.
func TestHangingFolderIsWaitedForOnce(t *testing.T) {
	root := t.TempDir()
	start(t, -1, "hold", root, "honest")
	slow := userFolder(t, root, mallory, mallory)
	h := Open([]string{root})
	t.Cleanup(h.Close)
	thaw, waited := make(chan struct{}), atomic.Int64{}
	h.entered = func(path string) {
		if filepath.Base(path) == filepath.Base(slow) {
			waited.Add(1)
			<-thaw
		}
	}
	ctx, g := context.Background(), gpu.Grant{UUIDs: []gpu.UUID{"GPU-0"}}
	_, warnings, err := h.Claim(ctx, Subject{UniID: "u1", Job: "first", Grant: g})
	if !errors.Is(err, errDoubt) || len(warnings) != 1 || !strings.Contains(warnings[0], "does not answer") {
		t.Errorf("the first claim: %q, %v", warnings, err)
	}
	if n := len(files(t, root)); n != 1 {
		t.Errorf("after the refusal there are %d claims, want the honest one", n)
	}
	got, warnings, err := h.Claim(ctx, Subject{UniID: "u2", Job: "second", Grant: g})
	if err != nil || !slices.Equal(jobs(got), []string{"honest"}) || len(warnings) > 0 || waited.Load() != 1 {
		t.Errorf("the second: %+v, %q, %v; the folder was entered %d times", got, warnings, err, waited.Load())
	}
	close(thaw)
	for deadline := time.Now().Add(time.Minute); h.hung(filepath.Join(mustEval(t, root), filepath.Base(slow)), 0); {
		if time.Now().After(deadline) {
			t.Fatal("the folder answers again but is still left out")
		}
	}
}

func mustEval(t *testing.T, path string) string {
	t.Helper()
	real, err := filepath.EvalSymlinks(path)
	must(t, err)
	return real
}

// The limit does not include time during which the process was stopped.
func TestLimitCountsRunningTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := limited(context.Background())
		defer cancel()
		began := time.Now()
		<-ctx.Done()
		if d := time.Since(began); d != readLimit {
			t.Errorf("the limit came after %v, want %v", d, readLimit)
		}
	})
}

// If a folder triggers a panic, its claims are in doubt, but the process survives.
func TestPanicInAReadingCausesDoubt(t *testing.T) {
	root := t.TempDir()
	h := Open([]string{root})
	t.Cleanup(h.Close)
	h.entered = func(string) { panic("a bug") }
	_, warnings, err := h.Claim(context.Background(), Subject{UniID: "uni", Job: "job", Grant: gpu.Grant{UUIDs: []gpu.UUID{"GPU-0"}}})
	if !errors.Is(err, errDoubt) || len(warnings) != 1 || !strings.Contains(warnings[0], "internal error: a bug") {
		t.Errorf("Claim: %v, %q; want it in doubt and one warning", err, warnings)
	}
	h.entered = nil
	if _, _, err := h.Claim(context.Background(), Subject{UniID: "uni", Job: "job", Grant: gpu.Grant{UUIDs: []gpu.UUID{"GPU-0"}}}); err != nil {
		t.Errorf("Claim without the bug: %v", err)
	}
}
