package host

import "testing"

func TestUIDMapGivesHostUIDs(t *testing.T) {
	tests := []struct {
		name, text string
		seen, want int
	}{
		{"the host", "         0          0 4294967295\n", 1000, 1000},
		{"rootless: root", "         0       1000          1\n         1     100000      65536\n", 0, 1000},
		{"rootless: a user", "0 1000 1\n1 100000 65536\n", 33, 100032},
		{"user outside the map", "0 1000 1\n1 100000 65534\n", 65535, -1},
		{"no map", "", 65534, -1},
		{"invalid map", "x\n", 0, -1},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if got := parseUIDMap(tt.text).outside(tt.seen); got != tt.want {
				t.Errorf("uid %d is %d on the host, want %d", tt.seen, got, tt.want)
			}
		})
	}
}
