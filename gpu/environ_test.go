package gpu

import (
	"slices"
	"testing"
)

func TestCPUJobSeesNoGPU(t *testing.T) {
	want := []string{"CUDA_VISIBLE_DEVICES=-1", "NVIDIA_VISIBLE_DEVICES=void", "CUDA_DEVICE_ORDER=PCI_BUS_ID"}
	if got := (Grant{}).Environ(true); !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
}

func TestEnvironNamesDevicesUnambiguously(t *testing.T) {
	g := Grant{UUIDs: []UUID{"GPU-a", "GPU-b"}, Indices: []int{2, 5}}
	mig := Grant{UUIDs: []UUID{"MIG-a"}, Indices: []int{2}}
	tests := []struct {
		name    string
		grant   Grant
		indexed bool
		want    string
	}{
		{"indices", g, true, "2,5"},
		{"UUIDs", g, false, "GPU-a,GPU-b"},
		{"a MIG instance", mig, true, "MIG-a"},
	}
	for _, tt := range tests {
		want := []string{"CUDA_VISIBLE_DEVICES=" + tt.want, "NVIDIA_VISIBLE_DEVICES=" + tt.want, "CUDA_DEVICE_ORDER=PCI_BUS_ID"}
		if got := tt.grant.Environ(tt.indexed); !slices.Equal(got, want) {
			t.Errorf("%s: got %q, want %q", tt.name, got, want)
		}
	}
}
