package keeper

import (
	"bytes"
	"os/exec"
	"runtime"
	"sync"
	"testing"
	"time"

	"gpurun/state/host"
)

// Attempts that look for their processes at the same time share scans of /proc. No attempt gets a
// scan from before its request.
func TestScansAreShared(t *testing.T) {
	k, err := newKeeper()
	if err != nil {
		t.Fatal(err)
	}
	const n = 200
	got := make([]*scan, n)
	var all sync.WaitGroup
	k.scans.mu.Lock()
	for i := range n {
		all.Go(func() {
			asked := host.Boottime()
			if got[i] = k.scan(false); got[i].began < asked {
				t.Errorf("asked at %v, got a scan from %v", asked, got[i].began)
			}
		})
	}
	stacks := make([]byte, 4<<20)
	for began := time.Now(); bytes.Count(stacks[:runtime.Stack(stacks, true)], []byte("[sync.Mutex.Lock")) < n; {
		if time.Since(began) > time.Minute {
			t.Error("not all requests wait for a scan")
			break
		}
	}
	k.scans.mu.Unlock()
	all.Wait()
	distinct := map[*scan]bool{}
	for _, s := range got {
		distinct[s] = true
	}
	if len(distinct) != 1 {
		t.Errorf("%d scans for %d simultaneous requests, want one", len(distinct), n)
	}
}

// A process that an attempt's scan missed may belong to the attempt, even if a later scan of
// another attempt has found the process.
func TestProcessFoundByAnotherScanCounts(t *testing.T) {
	k, err := newKeeper()
	if err != nil {
		t.Fatal(err)
	}
	k.children = nil // this list has only children of the main thread, unlike the test's
	s := k.scan(false)
	cmd := exec.Command("sleep", "100")
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	defer cmd.Process.Kill()
	if k.scan(false) == s {
		t.Fatal("the second scan is the first one")
	}
	if !k.hasUnscannedOrphans(s) {
		t.Error("an orphan that started after the scan counts as scanned")
	}
}
