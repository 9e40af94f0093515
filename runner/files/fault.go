package files

import "gpurun/gpu"

// DeviceFault reports whether the end of a failed job's log shows a GPU fault.
func DeviceFault(tail []byte) bool {
	return gpu.LogBlames(noFailure().ReplaceAll(tail, nil)) && !OutOfMemory(tail)
}
