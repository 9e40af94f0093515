package files

import "testing"

func TestDeviceFaultIsRecognized(t *testing.T) {
	for _, row := range []struct {
		name, log string
		want      bool
	}{
		{"torch, ECC", "RuntimeError: CUDA error: uncorrectable ECC error encountered", true},
		{"the driver", "NVRM: GPU at PCI:0000:3b:00: GPU has fallen off the bus.", true},
		{"torch, first use of a GPU", "torch.AcceleratorError: CUDA error: all CUDA-capable devices are busy or unavailable\nCompile with `TORCH_USE_CUDA_DSA`", true},
		{"without the fabric manager", "Error 802: system not yet initialized", true},

		{"torch", "RuntimeError: CUDA error: unspecified launch failure\nCUDA kernel errors might be asynchronously reported", false},
		{"torch, memory", "torch.AcceleratorError: CUDA error: an illegal memory access was encountered", false},
		{"cuDNN", "RuntimeError: cuDNN error: CUDNN_STATUS_EXECUTION_FAILED", false},
		{"NCCL", "torch.distributed.DistBackendError: NCCL error in: ProcessGroupNCCL.cpp:1970, unhandled cuda error", false},
		{"empty log", "", false},
		{"error in the script", "ValueError: shapes do not match", false},
		{"out of memory", "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB", false},
		{"out of memory, as an error of CUDA", "RuntimeError: CUDA error: out of memory", false},
		{"out of memory, cuBLAS", "RuntimeError: CUDA error: CUBLAS_STATUS_ALLOC_FAILED when calling `cublasCreate(handle)`", false},
		{"an assert", "RuntimeError: CUDA error: device-side assert triggered\nCompile with `TORCH_USE_CUDA_DSA`", false},
		{"an assert, and what follows it", "RuntimeError: CUDA error: device-side assert triggered\nRuntimeError: cuDNN error: CUDNN_STATUS_EXECUTION_FAILED", false},
		{"no kernel image", "RuntimeError: CUDA error: no kernel image is available for execution on the device", false},
		{"no kernel image, by name", "cudaErrorNoKernelImageForDevice", false},
		{"a pinned device", "RuntimeError: CUDA error: invalid device ordinal", false},
		{"invalid launch", "RuntimeError: CUDA error: invalid configuration argument", false},
		{"an old driver", "RuntimeError: CUDA error: CUDA driver version is insufficient for CUDA runtime version", false},
		{"an operation that cuDNN lacks", "RuntimeError: CUDNN_STATUS_NOT_SUPPORTED. This error may appear if you passed in a non-contiguous input.", false},
		{"tensorflow warns at start", "E0000 cuda_dnn.cc:8310] Unable to register cuDNN factory: Attempting to register factory for plugin cuDNN when one has already been registered\nValueError: x", false},
		{"handled error", "warning: uncorrectable ECC error encountered, trying again\nValueError: x", false},
		{"a test's name", "tests/test_gpu.py::test[GPU has fallen off the bus] PASSED\nE  AssertionError", false},
	} {
		t.Run(row.name, func(t *testing.T) {
			if got := DeviceFault([]byte(row.log)); got != row.want {
				t.Errorf("got %v, want %v", got, row.want)
			}
		})
	}
}
