package files

import "gpurun/gpu"

// outOfMemory matches the messages that frameworks print when GPU memory runs out. It matches the
// error itself, but not advice ("lower the batch size if CUDA runs out of memory"), test names, or
// messages about host memory.
var outOfMemory = pattern(`(?m)` +
	// PyTorch, also on ROCm, and its older wording of the CUDA error.
	`(CUDA|HIP) out of memory\. Tried to allocate` +
	`|Error: (CUDA|HIP) out of memory([.! ]|\r?$)` +
	`|^torch\.(cuda\.)?OutOfMemoryError\b` +
	`|(CUDA|HIP)( driver| runtime)? [Ee]rror( \(?\d+\)? ?)?: ['"]?out of memory` +
	`|cuda runtime error \(2\) ?: out of memory` +
	`|CU(DNN|BLAS|SOLVER|SPARSE|FFT)_(STATUS_)?ALLOC_FAILED` +
	// The bare message, after at most a logger's prefix.
	`|^[ \t]*(` + loggerPrefix + `)*(CUDA|HIP) out of memory[.!]?\s*$` +
	// TensorFlow, PaddlePaddle.
	`|OOM when allocating tensor` +
	`|ResourceExhaustedError.*(OOM|[Oo]ut of memory|[Ff]ailed to allocate)` +
	`|Out of memory error on GPU \d` +
	// JAX and XLA. Servers also use the bare code for quotas.
	`|RESOURCE_EXHAUSTED: ([Oo]ut of memory|[Ff]ailed to allocate|Error loading program: .*memory)` +
	// CUDA's own names, CuPy, Numba, RMM, and programs that call cudaMalloc.
	`|CUDA_ERROR_OUT_OF_MEMORY` +
	`|cudaErrorMemoryAllocation` +
	`|cupy\.cuda\.memory\.OutOfMemoryError` +
	`|out_of_memory: (CUDA|RMM)` +
	`|cu(da|Mem)\w*[Aa]lloc\w*(\([^)\n]*\))? failed: out of memory` +
	// NCCL and ONNX Runtime.
	`|C(uda|UDA) failure:? ?2?:? ?'?out of memory` +
	// Thrust: an uncaught system_error. The host's bad_alloc reads differently.
	`|what\(\): +([\w ]+: )?out of memory\s*$`)

// loggerPrefix matches one part of a log message's prefix: "[rank0]:", a time, a level.
const loggerPrefix = `\[[^\]\n]*\]:?[ \t]*|\d[-\d:.,/TZ+]*[ \t]+|\w*(?i:error|exception|fatal|critical|failed):?[ \t]+`

// noFailure matches lines that only look like failures. TensorFlow and XLA warn about failed
// allocations from which they recover, and test runners print test names.
var noFailure = pattern(`(?mi)^.*(not a failure|will retry|trying again|falling back|\bpassed\b|\bxfail|\.\.\. ok\s*$).*$`)

// OutOfMemory reports whether the end of a log shows that GPU memory ran out. Call it only for
// failed jobs, and only with the attempt's own part of the log.
func OutOfMemory(tail []byte) bool {
	if !outOfMemory().Match(tail) {
		return false
	}
	return outOfMemory().Match(noFailure().ReplaceAll(tail, nil))
}

// DeviceFault reports whether the end of a failed job's log shows a GPU fault.
func DeviceFault(tail []byte) bool {
	return gpu.LogBlames(noFailure().ReplaceAll(tail, nil)) && !OutOfMemory(tail)
}
