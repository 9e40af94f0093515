package local

import (
	"sync"
	"testing"
)

// Attempts that look for their processes at the same time read /proc once or twice
// together, not once each, and none gets a reading from before it asked.
func TestScansAreShared(t *testing.T) {
	k, err := newKeeper(false)
	if err != nil {
		t.Fatal(err)
	}
	defer k.reaper.stop()
	const n = 200
	got := make([]*scan, n)
	var begin, all sync.WaitGroup
	begin.Add(n)
	for i := range n {
		all.Go(func() {
			begin.Done()
			begin.Wait()
			asked := boottime()
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
