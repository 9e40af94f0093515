//go:build linux && cgo

package probe

import (
	"strconv"
	"strings"

	"github.com/NVIDIA/go-nvml/pkg/nvml"

	"gpurun/gpu"
)

// A GPU that is counted and does not answer when the driver is opened is there all
// the same: it is listed by its index, under a UUID of our own, until it says its own.

const silentPrefix = "GPU?"

func (s *session) silent(index int, ret nvml.Return) {
	s.partial = true
	s.warnings = append(s.warnings, "GPU "+strconv.Itoa(index)+" does not answer: "+codeText(int(ret)))
	s.devs = append(s.devs, gpu.Device{Index: index, UUID: gpu.UUID(silentPrefix + strconv.Itoa(index)), Silent: true})
}

// silentIndex is the index of a device that was listed by it.
func silentIndex(id gpu.UUID) (int, bool) {
	text, ok := strings.CutPrefix(string(id), silentPrefix)
	if !ok {
		return 0, false
	}
	n, err := strconv.Atoi(text)
	return n, err == nil
}

// find asks a silent device what it is. From then on it has its own UUID here, too.
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

// parent is the text for a GPU that is no device any more.
const parent = "MIG has been switched on: its instances can be used from the next run on"

// noDevice reports whether a GPU that was listed as a device has been divided since.
func (s *session) noDevice(id gpu.UUID, d nvml.Device) bool {
	for i := range s.devs {
		if s.devs[i].UUID == id && s.devs[i].MIG {
			return false
		}
	}
	return s.partitioned(d)
}
