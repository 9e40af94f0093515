package files

// What frameworks print when GPU memory runs out. Each pattern matches the error
// message itself, not advice that mentions it ("lower the batch size if CUDA runs
// out of memory"), names of tests, or running out of host memory.
var outOfMemory = pattern(`(?m)` +
	// PyTorch, also on ROCm, and its older spelling of the CUDA error.
	`(CUDA|HIP) out of memory\. Tried to allocate` +
	`|Error: (CUDA|HIP) out of memory([.! ]|\r?$)` +
	`|^torch\.(cuda\.)?OutOfMemoryError\b` +
	`|(CUDA|HIP)( driver| runtime)? [Ee]rror( \(?\d+\)? ?)?: ['"]?out of memory` +
	`|cuda runtime error \(2\) ?: out of memory` +
	`|CU(DNN|BLAS|SOLVER|SPARSE|FFT)_(STATUS_)?ALLOC_FAILED` +
	// The words alone, after nothing but a logger's prefix.
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

// loggerPrefix matches one part of the prefix of a logged message: "[rank0]:", a
// time, a level.
const loggerPrefix = `\[[^\]\n]*\]:?[ \t]*|\d[-\d:.,/TZ+]*[ \t]+|\w*(?i:error|exception|fatal|critical|failed):?[ \t]+`

// noFailure matches lines that sound like a failure but are none: TensorFlow and XLA
// warn about failed allocations that they can do without, and test runners print
// names of tests.
var noFailure = pattern(`(?mi)^.*(not a failure|will retry|trying again|falling back|\bpassed\b|\bxfail|\.\.\. ok\s*$).*$`)

// OutOfMemory reports whether the end of a log shows that GPU memory ran out, as
// PyTorch, TensorFlow, JAX or CUDA report it. Call it only for failed jobs, with only
// the attempt's own part of the log.
func OutOfMemory(tail []byte) bool {
	if !outOfMemory().Match(tail) {
		return false
	}
	return outOfMemory().Match(noFailure().ReplaceAll(tail, nil))
}
