package gpu

import "testing"

func TestSignaturesAreRecognized(t *testing.T) {
	for _, text := range faultTexts {
		if !LogBlames([]byte("RuntimeError: CUDA error: " + text + "\n")) {
			t.Errorf("LogBlames misses %q", text)
		}
	}
	for xid, want := range map[int]bool{0: false, 13: false, 31: false, 43: false, 45: false, 48: true, 63: false, 64: true, 74: true, 79: true, 94: true, 95: true, 119: true, 120: true} {
		if XidCounts(xid) != want {
			t.Errorf("XidCounts(%d) = %v, want %v", xid, !want, want)
		}
	}
}
