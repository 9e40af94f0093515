package keeper

import (
	"os/exec"
	"sync"
	"testing"

	"gpurun/state/host"
)

// Attempts that look for their processes at the same time share one or two scans of /proc, and none
// gets a scan from before its request.
func TestScansAreShared(t *testing.T) {
	k, err := newKeeper()
	if err != nil {
		t.Fatal(err)
	}
	const n = 200
	got := make([]*scan, n)
	var begin, all sync.WaitGroup
	begin.Add(n)
	for i := range n {
		all.Go(func() {
			begin.Done()
			begin.Wait()
			asked := host.Boottime()
			if got[i] = k.scan(false); got[i].began < asked {
				t.Errorf("asked at %v, got a reading of %v", asked, got[i].began)
			}
		})
	}
	all.Wait()
	distinct := map[*scan]bool{}
	for _, s := range got {
		distinct[s] = true
	}
	if len(distinct) > n/10 {
		t.Errorf("%d readings for %d that asked at one time", len(distinct), n)
	}
}

// A process that an attempt's own scan missed may belong to it, even if another attempt has found
// the process in a later scan.
func TestProcessFoundByAnotherScanCounts(t *testing.T) {
	k, err := newKeeper()
	if err != nil {
		t.Fatal(err)
	}
	k.children = nil // the list has the main thread's children, which a test's are not
	s := k.scan(false)
	cmd := exec.Command("sleep", "100")
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	defer cmd.Process.Kill()
	if k.scan(false) == s {
		t.Fatal("the scan was not a new one")
	}
	if !k.hasUnscannedOrphans(s) {
		t.Error("an orphan that started after the scan counts as seen")
	}
}
