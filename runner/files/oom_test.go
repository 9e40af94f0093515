package files

import "testing"

func TestOutOfMemoryIsRecognized(t *testing.T) {
	for _, row := range []struct {
		name, log string
		want      bool
	}{
		{"torch 2", "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB. GPU 0 has a total capacity of 23.65 GiB", true},
		{"torch 1", "RuntimeError: CUDA out of memory. Tried to allocate 20.00 MiB (GPU 0; 10.76 GiB total capacity)", true},
		{"torch, only the message", "CUDA out of memory. Tried to allocate 20.00 MiB", true},
		{"torch, cudaMalloc", "RuntimeError: CUDA error: out of memory\nCUDA kernel errors might be asynchronously reported", true},
		{"torch, old", "RuntimeError: cuda runtime error (2) : out of memory at /opt/THC/THCStorage.cu:58", true},
		{"torch, driver", "RuntimeError: CUDA driver error: out of memory", true},
		{"torch on ROCm", "torch.cuda.OutOfMemoryError: HIP out of memory. Tried to allocate 1 GiB", true},
		{"cuBLAS", "RuntimeError: CUDA error: CUBLAS_STATUS_ALLOC_FAILED when calling `cublasCreate(handle)`", true},
		{"tensorflow", "ResourceExhaustedError: Graph execution error:\nOOM when allocating tensor with shape[64,512,28,28]", true},
		{"tensorflow, one line", "errors_impl.ResourceExhaustedError: failed to allocate memory [Op:AddV2]", true},
		{"jax", "jaxlib.xla_extension.XlaRuntimeError: RESOURCE_EXHAUSTED: Out of memory while trying to allocate 17179869184 bytes.", true},
		{"cuda driver", "cuMemAlloc failed: CUDA_ERROR_OUT_OF_MEMORY: out of memory", true},
		{"cuda runtime", "GPUassert: cudaErrorMemoryAllocation train.cu 42", true},
		{"cudaMalloc", "ggml_backend_cuda_buffer_type_alloc_buffer: allocating 9 MiB on device 0: cudaMalloc failed: out of memory", true},
		{"cupy", "cupy.cuda.memory.OutOfMemoryError: Out of memory allocating 8,000,000,000 bytes", true},
		{"nccl", "ncclUnhandledCudaError: Cuda failure 'out of memory'", true},
		{"only the message", "epoch 3\nCUDA out of memory\n", true},
		{"only the message, CRLF", "CUDA out of memory.\r\n", true},
		{"only the message, logged", "[rank0]: 2026-03-01 10:00:00,123 ERROR: CUDA out of memory", true},
		{"onnx runtime", "Non-zero status code: CUDA failure 2: out of memory ; GPU=0 ; hostname=gpu01", true},
		{"nccl, newer", "NCCL WARN Cuda failure 2 'out of memory'", true},
		{"darknet", "CUDA Error: out of memory", true},
		{"cuda error with its number", "CUDA error 2: out of memory", true},
		{"thrust", "terminate called after throwing an instance of 'thrust::system::system_error'\n  what():  out of memory\nAborted (core dumped)", true},
		{"thrust, a step", "  what():  parallel_for failed: out of memory\n", true},
		{"torch, cudaMallocAsync", "torch.OutOfMemoryError: Allocation on device 0 would exceed allowed memory.", true},
		{"paddle", "ResourceExhaustedError: \n\nOut of memory error on GPU 0. Cannot allocate 2GB", true},
		{"in the middle", "epoch 3\nTraceback\ntorch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2 GiB.\nwandb: done\n", true},

		{"empty log", "", false},
		{"another failure", "ValueError: shapes do not match", false},
		{"advice", "hint: if CUDA runs out of memory, lower the batch size to avoid CUDA out of memory", false},
		{"a test's name", "tests/test_oom.py::test_recovers[CUDA out of memory] PASSED\nE  AssertionError", false},
		{"a test's name with the error in it", "test_oom[RuntimeError: CUDA out of memory] PASSED\nE  AssertionError", false},
		{"a unittest", "test_retry (CUDA out of memory) ... ok\nFAILED (failures=1)", false},
		{"a section", "== CUDA out of memory handling ==\nValueError: x", false},
		{"a handler's name", "handler: on CUDA out of memory: skip the batch", false},
		{"host memory, C++", "terminate called after throwing an instance of 'std::bad_alloc'\n  what():  std::bad_alloc", false},
		{"host memory, python", "MemoryError: Unable to allocate 9.31 GiB for an array", false},
		{"host memory, torch", "RuntimeError: [enforce fail at alloc_cpu.cpp:83] DefaultCPUAllocator: can't allocate memory", false},
		{"host memory, a tool", "mmap failed: Cannot allocate memory; sort: out of memory", false},
		{"disk", "OSError: [Errno 28] No space left on device", false},
		{"a quota of a server", "google.api_core.exceptions.ResourceExhausted: 429 RESOURCE_EXHAUSTED: Quota exceeded", false},
		{"a metric", "oom_score 0, oom: false, out of memory events: 0", false},
		{"tensorflow continues", "W Allocator (GPU_0_bfc) ran out of memory; failed to alloc: CUDA_ERROR_OUT_OF_MEMORY. The caller indicates that this is not a failure\nValueError: x", false},
		{"tensorflow continues, then fails", "CUDA_ERROR_OUT_OF_MEMORY: this is not a failure\nOOM when allocating tensor with shape[1]", true},
		{"another CUDA error", "RuntimeError: CUDA error: device-side assert triggered", false},
	} {
		t.Run(row.name, func(t *testing.T) {
			if got := OutOfMemory([]byte(row.log)); got != row.want {
				t.Errorf("got %v, want %v", got, row.want)
			}
		})
	}
}
