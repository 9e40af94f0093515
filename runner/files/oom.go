package files

import "regexp"

// What frameworks print when a GPU's memory has run out. Each pattern wants the
// words of the error itself: advice that merely mentions it ("lower the batch
// size if CUDA runs out of memory") and failures of host memory match none.
var outOfMemory = regexp.MustCompile(`(?m)` +
	// PyTorch, also on ROCm, and its older spelling of the CUDA error.
	`(CUDA|HIP) out of memory\. Tried to allocate` +
	`|Error: (CUDA|HIP) out of memory` +
	`|(CUDA|HIP)( driver| runtime)? error( \(\d+\) ?)?: out of memory` +
	`|cuda runtime error \(2\) ?: out of memory` +
	`|CU(DNN|BLAS|SOLVER|SPARSE|FFT)_(STATUS_)?ALLOC_FAILED` +
	// TensorFlow.
	`|OOM when allocating tensor` +
	`|ResourceExhaustedError.*(OOM|[Oo]ut of memory|[Ff]ailed to allocate)` +
	// JAX and XLA. The bare code is also what servers say of a quota.
	`|RESOURCE_EXHAUSTED: ([Oo]ut of memory|[Ff]ailed to allocate|Error loading program: .*memory)` +
	// CUDA's own names, CuPy, Numba, NCCL, RMM, and programs that call cudaMalloc.
	`|CUDA_ERROR_OUT_OF_MEMORY` +
	`|cudaErrorMemoryAllocation` +
	`|cupy\.cuda\.memory\.OutOfMemoryError` +
	`|Cuda failure '?(2 )?'?out of memory` +
	`|out_of_memory: (CUDA|RMM)` +
	`|cu(da|Mem)\w*[Aa]lloc\w*(\([^)\n]*\))? failed: out of memory`)

// TensorFlow and XLA warn in the words of the error when an attempt to allocate
// fails that they then make do without.
var noFailure = regexp.MustCompile(`(?mi)^.*(not a failure|will retry|trying again|falling back).*$`)

// OutOfMemory says whether the end of a log tells that a GPU's memory ran out, in
// the words of PyTorch, TensorFlow, JAX or CUDA. It is asked of jobs that have
// failed, and of nobody else's part of the log.
func OutOfMemory(tail []byte) bool {
	if !outOfMemory.Match(tail) {
		return false
	}
	return outOfMemory.Match(noFailure.ReplaceAll(tail, nil))
}
