package gpu

import "testing"

// Every signature must be either an Xid or a log text, and name its source.
func TestSignaturesNameTheirSource(t *testing.T) {
	for _, s := range Signatures {
		if s.Source == "" || (s.Xid > 0) == (s.Log != "") {
			t.Errorf("no source, or not exactly one kind: %+v", s)
		}
		if s.Log != "" && !LogBlames([]byte("RuntimeError: CUDA error: "+s.Log+"\n")) {
			t.Errorf("LogBlames misses %q", s.Log)
		}
	}
	for xid, want := range map[int]bool{0: false, 13: false, 31: false, 43: false, 45: false, 48: true, 63: false, 64: true, 74: true, 79: true, 94: true, 95: true, 119: true, 120: true} {
		if XidCounts(xid) != want {
			t.Errorf("XidCounts(%d) = %v, want %v", xid, !want, want)
		}
	}
}
