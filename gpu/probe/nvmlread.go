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

// answer reads the devices of q. If all devices fail, it blames the driver, which
// may answer once another child initializes it again.
func (s *session) answer(q question) answer {
	a := answer{ID: q.ID}
	gone := 0
	for _, id := range q.UUIDs {
		r, ret := s.read(id, q.Processes)
		if ret != nvml.SUCCESS {
			r = gpu.Reading{UUID: id, Err: codeText(int(ret)), Total: -1, Free: -1, Used: -1}
			delete(s.handles, id)
		}
		if s.fails[id] = ret != nvml.SUCCESS; s.allFail() {
			a.Gone = "no GPU answers: " + r.Err
		}
		if driverGone(ret) {
			if gone++; gone == len(q.UUIDs) {
				a.Gone = codeText(int(ret))
			}
		}
		a.Readings = append(a.Readings, r)
	}
	return a
}

// allFail reports whether all devices have been read and none answered last time.
func (s *session) allFail() bool {
	for _, fails := range s.fails {
		if !fails {
			return false
		}
	}
	return len(s.fails) >= len(s.devs)
}

// driverGone reports whether a code concerns the driver as a whole.
func driverGone(ret nvml.Return) bool {
	return ret == codeUninitialized || ret == codeDriverNotLoaded || ret == codeMismatch
}

// fatal reports whether this code, from any function, means the device does not answer.
func fatal(ret nvml.Return) bool {
	return driverGone(ret) || ret == codeGPULost || ret == codeResetRequired
}

// handle returns the device's handle, looked up again after a failure.
func (s *session) handle(id gpu.UUID) (nvml.Device, nvml.Return) {
	if d, ok := s.handles[id]; ok {
		return d, nvml.SUCCESS
	}
	if !s.can("nvmlDeviceGetHandleByUUID") {
		return s.search(id)
	}
	d, ret := s.lib.DeviceGetHandleByUUID(string(id))
	if ret == nvml.SUCCESS {
		s.handles[id] = d
	}
	return d, ret
}

// search finds a handle if the driver cannot look up UUIDs.
func (s *session) search(id gpu.UUID) (nvml.Device, nvml.Return) {
	n, ret := s.lib.DeviceGetCount()
	if ret != nvml.SUCCESS {
		return nil, ret
	}
	for i := range n {
		d, ret := s.lib.DeviceGetHandleByIndex(i)
		if ret != nvml.SUCCESS {
			continue
		}
		if uuid, ret := d.GetUUID(); ret == nvml.SUCCESS && uuid == string(id) {
			s.handles[id] = d
			return d, nvml.SUCCESS
		}
	}
	return nil, nvml.ERROR_NOT_FOUND
}

// read reads one device. A result other than SUCCESS means it does not answer.
func (s *session) read(id gpu.UUID, full bool) (gpu.Reading, nvml.Return) {
	r := gpu.Reading{UUID: id}
	var d nvml.Device
	var ret nvml.Return
	if index, silent := silentIndex(id); silent {
		var dev gpu.Device
		if dev, d, ret = s.find(id, index); ret == nvml.SUCCESS {
			r.Found = &dev
		}
	} else {
		d, ret = s.handle(id)
	}
	if ret != nvml.SUCCESS {
		return r, ret
	}
	if s.noDevice(id, d) {
		return gpu.Reading{UUID: id, Err: parent, Total: -1, Free: -1, Used: -1}, nvml.SUCCESS
	}
	m := s.memory(d)
	if m.ret != nvml.SUCCESS {
		return r, m.ret
	}
	r.Total, r.Free, r.Used = m.total, m.free, m.used
	if !full {
		return r, nvml.SUCCESS
	}
	r.ComputeMode = s.computeMode(d)
	if r.Samples, ret = s.samples(id, d); fatal(ret) {
		return r, ret
	}
	r.Processes, r.Listed, ret = s.processes(d, m.total)
	if fatal(ret) {
		return r, ret
	}
	return r, nvml.SUCCESS
}

// A memory is a device's memory; -1 if unknown. ret is SUCCESS unless the device does not answer.
type memory struct {
	total, free, used gpu.Bytes
	ret               nvml.Return
}

// memory prefers v2, whose used excludes what the driver reserves; free means
// the same in both.
func (s *session) memory(d nvml.Device) memory {
	ret := nvml.ERROR_NOT_SUPPORTED
	if s.can("nvmlDeviceGetMemoryInfo_v2") {
		var m nvml.Memory_v2
		if m, ret = d.GetMemoryInfo_v2(); ret == nvml.SUCCESS {
			return memory{amount(m.Total), amount(m.Free), amount(m.Used), ret}
		}
	}
	if s.can("nvmlDeviceGetMemoryInfo") && !fatal(ret) {
		var m nvml.Memory
		if m, ret = d.GetMemoryInfo(); ret == nvml.SUCCESS {
			return memory{amount(m.Total), amount(m.Free), amount(m.Used), ret}
		}
	}
	switch ret {
	case nvml.ERROR_NOT_SUPPORTED, nvml.ERROR_NO_PERMISSION, nvml.ERROR_FUNCTION_NOT_FOUND, nvml.ERROR_ARGUMENT_VERSION_MISMATCH:
		ret = nvml.SUCCESS // unknown, as on GPUs that share host memory
	}
	return memory{-1, -1, -1, ret}
}

// amount returns -1 for nonsense and for NVML's "not available", which is all ones.
func amount(n uint64) gpu.Bytes {
	if n > 1<<60 {
		return -1
	}
	return gpu.Bytes(n)
}

func (s *session) computeMode(d nvml.Device) gpu.ComputeMode {
	if !s.can("nvmlDeviceGetComputeMode") {
		return gpu.ComputeDefault
	}
	mode, ret := d.GetComputeMode()
	switch {
	case ret != nvml.SUCCESS:
		return gpu.ComputeDefault
	case mode == nvml.COMPUTEMODE_PROHIBITED:
		return gpu.ComputeProhibited
	case mode == nvml.COMPUTEMODE_EXCLUSIVE_PROCESS || mode == nvml.COMPUTEMODE_EXCLUSIVE_THREAD:
		return gpu.ComputeExclusive
	}
	return gpu.ComputeDefault
}

// samples returns what the driver buffered since the last call, plus the current
// value. Times are ages, so negative. There are none if utilization cannot be
// read, as on MIG instances.
func (s *session) samples(id gpu.UUID, d nvml.Device) ([]gpu.Sample, nvml.Return) {
	if !s.can("nvmlDeviceGetUtilizationRates") {
		return s.buffered(id, d), nvml.SUCCESS
	}
	u, ret := d.GetUtilizationRates()
	if ret != nvml.SUCCESS || u.Gpu > 100 {
		return nil, ret
	}
	return append(s.buffered(id, d), gpu.Sample{Percent: int(u.Gpu)}), nvml.SUCCESS
}

// oldest is how far back samples are useful.
const oldest = 2 * time.Minute

// buffered reads the driver's own samples. Their timestamps are wall-clock times;
// it drops those in the future or far in the past.
func (s *session) buffered(id gpu.UUID, d nvml.Device) []gpu.Sample {
	if !s.can("nvmlDeviceGetSamples") {
		return nil
	}
	kind, raw, ret := d.GetSamples(nvml.GPU_UTILIZATION_SAMPLES, s.lastSeen[id])
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
		s.lastSeen[id] = max(s.lastSeen[id], r.TimeStamp)
		samples = append(samples, gpu.Sample{At: age, Percent: int(percent)})
	}
	slices.SortFunc(samples, func(a, b gpu.Sample) int { return cmp.Compare(a.At, b.At) })
	return samples
}

// processes returns the processes with a compute context, including MPS clients,
// and whether they could be read. It drops impossible records.
func (s *session) processes(d nvml.Device, total gpu.Bytes) (procs []gpu.Process, listed bool, ret nvml.Return) {
	if s.noLists || !s.can("nvmlDeviceGetComputeRunningProcesses_v3", "nvmlDeviceGetComputeRunningProcesses_v2", "nvmlDeviceGetComputeRunningProcesses") {
		return nil, false, nvml.SUCCESS
	}
	infos, ret := listOf(d.GetComputeRunningProcesses)
	if ret != nvml.SUCCESS {
		return nil, false, ret
	}
	if s.can("nvmlDeviceGetMPSComputeRunningProcesses_v3", "nvmlDeviceGetMPSComputeRunningProcesses_v2", "nvmlDeviceGetMPSComputeRunningProcesses") {
		if clients, ret := listOf(d.GetMPSComputeRunningProcesses); ret == nvml.SUCCESS {
			infos = append(infos, clients...)
		}
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
	return procs, true, nvml.SUCCESS
}

// listOf calls one of go-nvml's list functions, which panic if a driver reports
// more records than it had room for.
func listOf(list func() ([]nvml.ProcessInfo, nvml.Return)) (infos []nvml.ProcessInfo, ret nvml.Return) {
	defer func() {
		if recover() != nil {
			infos, ret = nil, nvml.ERROR_UNKNOWN
		}
	}()
	return list()
}
