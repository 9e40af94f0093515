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

// A reading waits for a hanging folder only once. Nothing starts that time, because the folder's
// claims are unknown. Later readings skip the folder until it responds.
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
		t.Errorf("first claim: warnings %q, %v, want doubt and one warning", warnings, err)
	}
	if n := len(files(t, root)); n != 1 {
		t.Errorf("after the refusal there are %d claims, want only the honest one", n)
	}
	got, warnings, err := h.Claim(ctx, Subject{UniID: "u2", Job: "second", Grant: g})
	if err != nil || !slices.Equal(jobs(got), []string{"honest"}) || len(warnings) > 0 || waited.Load() != 1 {
		t.Errorf("second claim: %+v, warnings %q, %v; entered the folder %d times, want once", got, warnings, err, waited.Load())
	}
	close(thaw)
	for deadline := time.Now().Add(time.Minute); h.hung(filepath.Join(mustEval(t, root), filepath.Base(slow)), 0); {
		if time.Now().After(deadline) {
			t.Fatal("the folder responds again but is still skipped")
		}
	}
}

func mustEval(t *testing.T, path string) string {
	t.Helper()
	real, err := filepath.EvalSymlinks(path)
	must(t, err)
	return real
}

// Without a stop of the process, the limit is exactly readLimit.
func TestLimitCountsRunningTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := limited(context.Background())
		defer cancel()
		began := time.Now()
		<-ctx.Done()
		if d := time.Since(began); d != readLimit {
			t.Errorf("canceled after %v, want %v", d, readLimit)
		}
	})
}

// If reading a folder panics, its claims are in doubt, but the process survives.
func TestPanicInAReadingCausesDoubt(t *testing.T) {
	root := t.TempDir()
	h := Open([]string{root})
	t.Cleanup(h.Close)
	h.entered = func(string) { panic("a bug") }
	_, warnings, err := h.Claim(context.Background(), Subject{UniID: "uni", Job: "job", Grant: gpu.Grant{UUIDs: []gpu.UUID{"GPU-0"}}})
	if !errors.Is(err, errDoubt) || len(warnings) != 1 || !strings.Contains(warnings[0], "internal error: a bug") {
		t.Errorf("Claim: %v, warnings %q; want doubt and one warning", err, warnings)
	}
	h.entered = nil
	if _, _, err := h.Claim(context.Background(), Subject{UniID: "uni", Job: "job", Grant: gpu.Grant{UUIDs: []gpu.UUID{"GPU-0"}}}); err != nil {
		t.Errorf("Claim without the panic: %v", err)
	}
}
