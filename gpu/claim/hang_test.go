package claim

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"golang.org/x/sys/unix"

	"gpurun/gpu"
)

// A reading waits for a hanging folder only once. Nothing starts that time, because the folder's
// claims are unknown. Later readings skip the folder until it responds.
func TestHangingFolderIsWaitedForOnce(t *testing.T) {
	shortLimit(t)
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

// limitChild stops itself at the beginning of a limited reading. It ends at the limit.
func limitChild([]string) error {
	ReadLimit = time.Second
	fmt.Println("ready")
	ctx, cancel := limited(context.Background())
	defer cancel()
	_ = unix.Kill(os.Getpid(), unix.SIGSTOP)
	<-ctx.Done()
	return nil
}

// Time during which the process is stopped does not count.
func TestLimitCountsRunningTime(t *testing.T) {
	shortLimit(t)
	began := time.Now()
	c := start(t, -1, "limit")
	awaitStop(t, c.Process.Pid)
	ran := time.Since(began)
	time.Sleep(ReadLimit)
	began = time.Now()
	must(t, unix.Kill(c.Process.Pid, unix.SIGCONT))
	c.end(t)
	if ran += time.Since(began); ran < ReadLimit*9/10 {
		t.Errorf("stopped for %v, canceled after running for at most %v, want %v", ReadLimit, ran, ReadLimit)
	}
}

// Without a stop of the process, the limit is exactly ReadLimit.
func TestLimitIsExactWithoutStop(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := limited(context.Background())
		defer cancel()
		began := time.Now()
		<-ctx.Done()
		if d := time.Since(began); d != ReadLimit {
			t.Errorf("canceled after %v, want %v", d, ReadLimit)
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
