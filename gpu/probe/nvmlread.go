//go:build linux && cgo

package probe

import (
	"cmp"
	"encoding/binary"
	"math"
	"slices"
	"time"

	"github.com/NVIDIA/go-nvml/pkg/nvml"

	"gpurun/gpu"
)

// answer reads the devices in q. If all devices fail, it reports that the driver is gone. The
// driver may recover once another child initializes it.
func (s *session) answer(q question) answer {
	a := answer{ID: q.ID}
	if q.Processes {
		s.drain()
	}
	gone := 0
	for _, id := range q.UUIDs {
		r, ret := s.read(id, q.Processes)
		a.Readings = append(a.Readings, r)
		if s.allFail() {
			a.Gone = "no GPU answers: " + r.Err
		}
		if driverGone(ret) {
			if gone++; gone == len(q.UUIDs) {
				a.Gone = codeText(ret)
			}
		}
	}
	return a
}

// allFail reports whether all devices have been read and none responded in its last reading.
func (s *session) allFail() bool {
	failed := 0
	for _, d := range s.known {
		if d.read && !d.failed {
			return false
		}
		if d.read {
			failed++
		}
	}
	return failed >= len(s.Devices)
}

// driverGone reports whether a code concerns the driver as a whole.
func driverGone(ret nvml.Return) bool {
	return ret == nvml.ERROR_UNINITIALIZED || ret == nvml.ERROR_DRIVER_NOT_LOADED || ret == nvml.ERROR_LIB_RM_VERSION_MISMATCH
}

// fatal reports whether this code, from any function, means that the device does not respond.
func fatal(ret nvml.Return) bool {
	return driverGone(ret) || ret == nvml.ERROR_GPU_IS_LOST || ret == nvml.ERROR_RESET_REQUIRED
}

// find returns the record of a device, with its handle. found is the identity of a silent device
// that has just responded, or nil.
func (s *session) find(id gpu.UUID) (d *device, found *gpu.Device, ret nvml.Return) {
	if d = s.known[id]; d == nil {
		d = &device{Device: gpu.Device{UUID: id}}
		s.known[id] = d
	}
	if d.handle != nil {
		return d, nil, nvml.SUCCESS
	}
	if index, silent := silentIndex(id); silent {
		other, ret := s.at(index)
		if ret != nvml.SUCCESS {
			return d, nil, ret
		}
		delete(s.known, id)
		s.add(other)
		return other, &other.Device, ret
	}
	if s.can("nvmlDeviceGetHandleByUUID") {
		d.handle, ret = s.lib.DeviceGetHandleByUUID(string(id))
		return d, nil, ret
	}
	n, ret := s.lib.DeviceGetCount()
	if ret != nvml.SUCCESS {
		return d, nil, ret
	}
	for i := range n {
		if other, ret := s.at(i); ret == nvml.SUCCESS && other.UUID == id {
			d.handle = other.handle
			return d, nil, ret
		}
	}
	return d, nil, nvml.ERROR_NOT_FOUND
}

// read reads one device. A result other than SUCCESS means that the device does not respond.
func (s *session) read(id gpu.UUID, full bool) (gpu.Reading, nvml.Return) {
	d, found, ret := s.find(id)
	r := gpu.Reading{Found: found}
	if ret == nvml.SUCCESS {
		ret = s.values(d, &r, full)
	}
	d.read, d.failed = true, ret != nvml.SUCCESS
	if d.failed {
		d.handle = nil
		r = unread(codeText(ret))
		r.Lost = ret == nvml.ERROR_GPU_IS_LOST
	}
	r.UUID = id
	return r, ret
}

// parent is the error for a GPU that is no longer usable as a whole.
const parent = "MIG was enabled: the next run can use the MIG instances"

func (s *session) values(d *device, r *gpu.Reading, full bool) nvml.Return {
	if !d.MIG && s.partitioned(d.handle) {
		*r = unread(parent)
		return nvml.SUCCESS
	}
	m, ret := s.memory(d.handle)
	if ret != nvml.SUCCESS {
		return ret
	}
	r.Total, r.Free, r.Used = m.total, m.free, m.used
	if !full {
		return nvml.SUCCESS
	}
	r.ComputeMode = s.computeMode(d.handle)
	if r.Samples, ret = s.samples(d); fatal(ret) {
		return ret
	}
	if r.Processes, ret = s.processes(d.handle, m.total); fatal(ret) {
		return ret
	}
	r.Listed = ret == nvml.SUCCESS
	r.Health, ret = s.health(d)
	return ret
}

// A memory holds the sizes of a device's memory; -1 if unknown.
type memory struct{ total, free, used gpu.Bytes }

// memory reads a device's memory. It prefers version 2 of NVML's function, whose used value excludes
// memory reserved by the driver; the free value is the same in both versions. A result other than
// SUCCESS means that the device does not respond.
func (s *session) memory(h nvml.Device) (memory, nvml.Return) {
	m2, ret := query(s, h.GetMemoryInfo_v2, "nvmlDeviceGetMemoryInfo_v2")
	if ret == nvml.SUCCESS {
		return memory{amount(m2.Total), amount(m2.Free), amount(m2.Used)}, ret
	}
	if !fatal(ret) {
		var m nvml.Memory
		if m, ret = query(s, h.GetMemoryInfo, "nvmlDeviceGetMemoryInfo"); ret == nvml.SUCCESS {
			return memory{amount(m.Total), amount(m.Free), amount(m.Used)}, ret
		}
	}
	switch ret {
	case nvml.ERROR_NOT_SUPPORTED, nvml.ERROR_NO_PERMISSION, nvml.ERROR_FUNCTION_NOT_FOUND, nvml.ERROR_ARGUMENT_VERSION_MISMATCH:
		ret = nvml.SUCCESS // unknown, as for GPUs that share host memory
	}
	return memory{-1, -1, -1}, ret
}

// amount returns -1 for impossible values and for NVML's "not available", which is all ones.
func amount(n uint64) gpu.Bytes {
	if n > 1<<60 {
		return -1
	}
	return gpu.Bytes(n)
}

func (s *session) computeMode(h nvml.Device) gpu.ComputeMode {
	mode, ret := query(s, h.GetComputeMode, "nvmlDeviceGetComputeMode")
	switch {
	case ret != nvml.SUCCESS:
	case mode == nvml.COMPUTEMODE_PROHIBITED:
		return gpu.ComputeProhibited
	case mode == nvml.COMPUTEMODE_EXCLUSIVE_PROCESS || mode == nvml.COMPUTEMODE_EXCLUSIVE_THREAD:
		return gpu.ComputeExclusive
	}
	return gpu.ComputeDefault
}

// samples returns the driver's samples since the last call, and the current value. Times are
// relative to now, so they are negative, or 0 for the current value. There are no samples if
// utilization cannot be read, as on MIG instances.
func (s *session) samples(d *device) ([]gpu.Sample, nvml.Return) {
	u, ret := query(s, d.handle.GetUtilizationRates, "nvmlDeviceGetUtilizationRates")
	switch {
	case ret == nvml.ERROR_FUNCTION_NOT_FOUND:
		return s.buffered(d), nvml.SUCCESS
	case ret != nvml.SUCCESS || u.Gpu > 100:
		return nil, ret
	}
	return append(s.buffered(d), gpu.Sample{Percent: int(u.Gpu)}), nvml.SUCCESS
}

// oldest is the maximum age of useful samples.
const oldest = 2 * time.Minute

// buffered reads the driver's own samples. Their timestamps are wall-clock times, so it drops those
// in the future or the distant past.
func (s *session) buffered(d *device) []gpu.Sample {
	if !s.can("nvmlDeviceGetSamples") {
		return nil
	}
	kind, raw, ret := d.handle.GetSamples(nvml.GPU_UTILIZATION_SAMPLES, d.newest)
	if ret != nvml.SUCCESS || kind != nvml.VALUE_TYPE_UNSIGNED_INT {
		return nil
	}
	var samples []gpu.Sample
	now := time.Now()
	for _, r := range raw {
		percent := binary.NativeEndian.Uint32(r.SampleValue[:4])
		age := time.UnixMicro(int64(r.TimeStamp)).Sub(now)
		if r.TimeStamp == 0 || percent > 100 || age >= 0 || age < -oldest {
			continue
		}
		d.newest = max(d.newest, r.TimeStamp)
		samples = append(samples, gpu.Sample{At: age, Percent: int(percent)})
	}
	slices.SortFunc(samples, func(a, b gpu.Sample) int { return cmp.Compare(a.At, b.At) })
	return samples
}

// processes returns the processes with a compute context, including MPS clients. It drops
// impossible records.
func (s *session) processes(h nvml.Device, total gpu.Bytes) (procs []gpu.Process, ret nvml.Return) {
	if s.noLists {
		return nil, nvml.ERROR_NOT_SUPPORTED
	}
	infos, ret := query(s, h.GetComputeRunningProcesses, versions("nvmlDeviceGetComputeRunningProcesses")...)
	if ret != nvml.SUCCESS {
		return nil, ret
	}
	clients, ret := query(s, h.GetMPSComputeRunningProcesses, versions("nvmlDeviceGetMPSComputeRunningProcesses")...)
	if ret == nvml.SUCCESS {
		infos = append(infos, clients...)
	}
	seen := map[uint32]bool{}
	for _, info := range infos {
		m := amount(info.UsedGpuMemory)
		if info.Pid == 0 || info.Pid > math.MaxInt32 || seen[info.Pid] || total > 0 && m > total {
			continue
		}
		if m < 0 && info.UsedGpuMemory != math.MaxUint64 {
			continue
		}
		seen[info.Pid] = true
		p := gpu.Process{PID: int(info.Pid), Memory: m}
		s.owners.find(&p)
		procs = append(procs, p)
	}
	return procs, nvml.SUCCESS
}
