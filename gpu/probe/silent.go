//go:build linux && cgo

package probe

import (
	"strconv"
	"strings"

	"github.com/NVIDIA/go-nvml/pkg/nvml"

	"gpurun/gpu"
)

// A GPU that NVML counts but that does not answer at Open is still there. It is
// listed by its index, under a made-up UUID, until it reports its own.

const silentPrefix = "GPU?"

func (s *session) silent(index int, ret nvml.Return) {
	s.partial = true
	s.warnings = append(s.warnings, "GPU "+strconv.Itoa(index)+" does not answer: "+codeText(int(ret)))
	s.devs = append(s.devs, gpu.Device{Index: index, UUID: gpu.UUID(silentPrefix + strconv.Itoa(index)), Silent: true})
}

// silentIndex returns the index in a made-up UUID.
func silentIndex(id gpu.UUID) (int, bool) {
	text, ok := strings.CutPrefix(string(id), silentPrefix)
	if !ok {
		return 0, false
	}
	n, err := strconv.Atoi(text)
	return n, err == nil
}

// find asks a silent device for its identity, which replaces the made-up UUID.
func (s *session) find(id gpu.UUID, index int) (gpu.Device, nvml.Device, nvml.Return) {
	d, ret := s.lib.DeviceGetHandleByIndex(index)
	if ret != nvml.SUCCESS {
		return gpu.Device{}, nil, ret
	}
	dev, ret := s.describe(d, index)
	if ret != nvml.SUCCESS {
		return gpu.Device{}, nil, ret
	}
	s.handles[dev.UUID] = d
	for i := range s.devs {
		if s.devs[i].UUID == id {
			s.devs[i] = dev
		}
	}
	delete(s.fails, id)
	return dev, d, nvml.SUCCESS
}

// parent is the error for a GPU that is no longer a device.
const parent = "MIG was switched on: its instances can be used from the next run on"

// noDevice reports whether a GPU that was listed as a device has since been partitioned.
func (s *session) noDevice(id gpu.UUID, d nvml.Device) bool {
	for i := range s.devs {
		if s.devs[i].UUID == id && s.devs[i].MIG {
			return false
		}
	}
	return s.partitioned(d)
}
