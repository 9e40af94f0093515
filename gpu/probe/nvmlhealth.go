//go:build linux && cgo

package probe

import (
	"github.com/NVIDIA/go-nvml/pkg/nvml"

	"gpurun/gpu"
)

// health reads a device's own report of faults, which is nil if there is nothing to report.
// Consumer cards and MIG instances report little. A result other than SUCCESS means that the device
// does not respond.
func (s *session) health(d *device) (*gpu.Health, nvml.Return) {
	h := &gpu.Health{Uncorrected: -1, Xid: d.xid}
	d.xid = 0
	errors, ret := query(s, func() (uint64, nvml.Return) {
		return d.handle.GetTotalEccErrors(nvml.MEMORY_ERROR_TYPE_UNCORRECTED, nvml.VOLATILE_ECC)
	}, "nvmlDeviceGetTotalEccErrors")
	if fatal(ret) {
		return nil, ret
	}
	if ret == nvml.SUCCESS && errors < 1<<31 {
		h.Uncorrected = int(errors)
	}
	pending, ret := query(s, func() (bool, nvml.Return) {
		_, _, pending, _, ret := d.handle.GetRemappedRows()
		return pending, ret
	}, "nvmlDeviceGetRemappedRows")
	if fatal(ret) {
		return nil, ret
	}
	h.Remap = ret == nvml.SUCCESS && pending
	if *h == (gpu.Health{Uncorrected: -1}) {
		h = nil
	}
	return h, nvml.SUCCESS
}

// register asks the driver to report critical errors of all GPUs. MIG instances have no events of
// their own.
func (s *session) register() {
	if !s.can("nvmlEventSetCreate") || !s.can("nvmlDeviceRegisterEvents") || !s.can("nvmlEventSetWait_v2", "nvmlEventSetWait") {
		return
	}
	set, ret := s.lib.EventSetCreate()
	if ret != nvml.SUCCESS {
		return
	}
	for _, d := range s.known {
		if d.handle != nil && !d.MIG && d.handle.RegisterEvents(nvml.EventTypeXidCriticalError, set) == nvml.SUCCESS {
			s.events = set
		}
	}
}

// maxEvents bounds how many events are read at a time, because a persistent error repeats
// endlessly.
const maxEvents = 32

// drain reads the events since its last call.
func (s *session) drain() {
	for n := 0; s.events != nil && n < maxEvents; n++ {
		ev, ret := s.events.Wait(1) // millisecond
		if ret != nvml.SUCCESS {
			return
		}
		if xid := int(ev.EventData); ev.EventType == nvml.EventTypeXidCriticalError && gpu.XidCounts(xid) {
			id, ret := ev.Device.GetUUID()
			if d := s.known[gpu.UUID(id)]; ret == nvml.SUCCESS && d != nil && (d.xid == 0 || xid != gpu.Contained) {
				d.xid = xid
			}
		}
	}
}
