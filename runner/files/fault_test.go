package files

import "testing"

func TestDeviceFault(t *testing.T) {
	for _, row := range []struct {
		name, log string
		want      bool
	}{
		{"torch", "RuntimeError: CUDA error: unspecified launch failure\nCUDA kernel errors might be asynchronously reported\nCompile with `TORCH_USE_CUDA_DSA` to enable device-side assertions.", true},
		{"torch, memory", "torch.AcceleratorError: CUDA error: an illegal memory access was encountered", true},
		{"torch, ECC", "RuntimeError: CUDA error: uncorrectable ECC error encountered", true},
		{"torch, old", "RuntimeError: cuda runtime error (719) : unspecified launch failure at /pytorch/aten/src/THC/THCReduceAll.cuh:327", true},
		{"torch, gone", "RuntimeError: No CUDA GPUs are available", true},
		{"torch, at its first use", "RuntimeError: CUDA unknown error - this may be due to an incorrectly set up environment", true},
		{"cuDNN", "RuntimeError: cuDNN error: CUDNN_STATUS_EXECUTION_FAILED", true},
		{"cuDNN 9", "RuntimeError: cuDNN error: CUDNN_STATUS_INTERNAL_ERROR_HOST_ALLOCATION", true},
		{"cuBLAS", "RuntimeError: CUDA error: CUBLAS_STATUS_NOT_INITIALIZED when calling `cublasCreate(handle)`", true},
		{"cuFFT", "RuntimeError: cuFFT error: CUFFT_EXEC_FAILED", true},
		{"NCCL", "torch.distributed.DistBackendError: NCCL error in: ProcessGroupNCCL.cpp:1970, unhandled cuda error\nncclUnhandledCudaError: Call to CUDA function failed.", true},
		{"NCCL, its own log", "NCCL WARN Cuda failure 'unspecified launch failure'", true},
		{"jax", "jaxlib.xla_extension.XlaRuntimeError: INTERNAL: CUDA_ERROR_LAUNCH_FAILED: unspecified launch failure", true},
		{"tensorflow", "InternalError: failed to synchronize: CUDA_ERROR_ILLEGAL_ADDRESS: an illegal memory access was encountered", true},
		{"a program", "GPUassert: cudaErrorLaunchFailure train.cu 42", true},
		{"onnx runtime", "CUDA failure 719: unspecified launch failure ; GPU=0 ; hostname=gpu01", true},
		{"nvidia-smi", "Unable to determine the device handle for GPU0000:3B:00.0: Unknown Error", true},
		{"HIP", "RuntimeError: HIP error: unspecified launch failure", true},

		{"nothing", "", false},
		{"a mistake in the script", "ValueError: shapes do not match", false},
		{"out of memory", "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB", false},
		{"out of memory, as an error of CUDA", "RuntimeError: CUDA error: out of memory", false},
		{"out of memory, cuBLAS", "RuntimeError: CUDA error: CUBLAS_STATUS_ALLOC_FAILED when calling `cublasCreate(handle)`", false},
		{"an assert", "RuntimeError: CUDA error: device-side assert triggered\nCompile with `TORCH_USE_CUDA_DSA`", false},
		{"an assert, and what follows it", "RuntimeError: CUDA error: device-side assert triggered\nRuntimeError: cuDNN error: CUDNN_STATUS_EXECUTION_FAILED", false},
		{"no kernel image", "RuntimeError: CUDA error: no kernel image is available for execution on the device", false},
		{"no kernel image, by name", "cudaErrorNoKernelImageForDevice", false},
		{"a pinned device", "RuntimeError: CUDA error: invalid device ordinal", false},
		{"a wrong launch", "RuntimeError: CUDA error: invalid configuration argument", false},
		{"an old driver", "RuntimeError: CUDA error: CUDA driver version is insufficient for CUDA runtime version", false},
		{"an operation that cuDNN lacks", "RuntimeError: CUDNN_STATUS_NOT_SUPPORTED. This error may appear if you passed in a non-contiguous input.", false},
		{"tensorflow starts", "E0000 cuda_dnn.cc:8310] Unable to register cuDNN factory: Attempting to register factory for plugin cuDNN when one has already been registered\nValueError: x", false},
		{"a handled one", "warning: CUDA error: unspecified launch failure, trying again\nValueError: x", false},
		{"a test's name", "tests/test_gpu.py::test[CUDA error: x] PASSED\nE  AssertionError", false},
	} {
		t.Run(row.name, func(t *testing.T) {
			if got := DeviceFault([]byte(row.log)); got != row.want {
				t.Errorf("got %v, want %v", got, row.want)
			}
		})
	}
}
