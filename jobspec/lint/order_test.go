package lint

import (
	"fmt"
	"testing"
)

// With a thousand globs of jobs and of inputs, each input may cost only a few matches, not one per job.
func TestManyGlobsTakeLinearTime(t *testing.T) {
	m := newProducers()
	const n = 1000
	for i := range n {
		m.add(fmt.Sprintf("/w/ckpt/%d/*.pt", i), int32(i))
		m.add(fmt.Sprintf("/w/data/%d/x.bin", i), int32(n+i))
	}
	m.add("/w/{a,b}/*.txt", 2*n)
	for path, want := range map[string]int32{
		"/w/ckpt/7/last.pt": 7, "/w/ckpt/7/last.bin": -1, "/w/ckpt/70/*.pt": 70, "/w/data/8/*.bin": n + 8, "/w/data/*/x.bin": n, "/w/b/x.txt": 2 * n,
	} {
		if by, ok := m.of(path); by != want || ok != (want >= 0) {
			t.Errorf("%s is created by job %d, want %d", path, by, want)
		}
	}
	m.spent = 0
	for i := range n {
		m.of(fmt.Sprintf("/w/ckpt/%d/new.pt", i))
		m.of(fmt.Sprintf("/w/data/%d/*.new", i))
	}
	if m.spent > 4*n {
		t.Errorf("%d matches for %d paths, want at most %d", m.spent, 2*n, 4*n)
	}
}
