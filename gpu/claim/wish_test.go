package claim

import (
	"fmt"
	"testing"
	"time"

	"gpurun/gpu"
)

// Only a user's oldest wishes count, one per run. No user can replace another user's wish by using
// the ID of that user's run.
func TestOldestWishesOfEachUserCount(t *testing.T) {
	began := time.Now()
	wished := func(uid, pid int, run string, age time.Duration) *wishContent {
		c := &wishContent{identity: self(), Wish: gpu.Wish{Run: run, Since: began.Add(-age)}}
		c.UID, c.PID = uid, pid
		return c
	}
	found := []*wishContent{wished(alice, 2, "a", time.Minute), wished(alice, 2, "a", time.Second), wished(mallory, 3, "a", time.Hour)}
	for i := range maxWishes + 1 {
		found = append(found, wished(mallory, 3, fmt.Sprint("m", i), time.Duration(i)*time.Second))
	}
	count := map[int]int{}
	for _, w := range wishes(found) {
		count[w.UID]++
		if w.UID == alice && w.Since != began.Add(-time.Minute) {
			t.Errorf("alice's wish is from %v, want the older one", w.Since)
		}
	}
	if count[alice] != 1 || count[mallory] != maxWishes {
		t.Errorf("wishes by user: %v, want 1 of alice, %d of mallory", count, maxWishes)
	}
}
