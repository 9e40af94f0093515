package gpu

import "testing"

// Every signature must be of exactly one kind, and name its source.
func TestSignaturesNameTheirSource(t *testing.T) {
	for _, s := range Signatures {
		if s.Source == "" || (s.Xid > 0) == (s.Log != "") {
			t.Errorf("%+v", s)
		}
		if s.Log != "" && !LogBlames([]byte("RuntimeError: CUDA error: "+s.Log+"\n")) {
			t.Errorf("%q does not count", s.Log)
		}
	}
	for xid, want := range map[int]bool{0: false, 13: false, 31: false, 43: false, 45: false, 48: true, 63: false, 64: true, 74: true, 79: true, 94: true, 95: true, 119: true, 120: true} {
		if XidCounts(xid) != want {
			t.Errorf("Xid %d counts: %v", xid, !want)
		}
	}
}
