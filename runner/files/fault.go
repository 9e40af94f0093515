package files

// What a program prints when CUDA, a library of it, NCCL or the driver failed. Each pattern
// matches the error itself, not the noise that frameworks print when they start.
var deviceFault = pattern(`(?m)` +
	// PyTorch, programs that check cudaGetLastError, ONNX Runtime.
	`(CUDA|HIP)( driver| runtime)? [Ee]rror( \(?\d+\)?)? ?:` +
	`|cuda runtime error \(\d+\)` +
	`|C(uda|UDA) failure:? ?\d*` +
	`|CUDA unknown error|No CUDA GPUs are available|no CUDA-capable device is detected` +
	// CUDA's own names and words.
	`|\bCUDA_ERROR_[A-Z]+|\bcudaError[A-Z]\w+` +
	`|unspecified launch failure|an illegal memory access was encountered|misaligned address` +
	`|an illegal instruction was encountered|hardware stack error|uncorrectable ECC error` +
	// Its libraries. Other codes are about what the program asked for.
	`|\bCU(DNN|BLAS|SOLVER|SPARSE|FFT|RAND)_(STATUS_)?(EXEC\w*_FAILED|INTERNAL_ERROR|NOT_INITIALIZED|MAPPING_ERROR)` +
	`|cuDNN [Ee]rror` +
	`|NCCL [Ee]rror|nccl(System|Internal|UnhandledCuda|Remote)Error` +
	// The driver.
	`|Unable to determine the device handle for GPU|GPU is lost|fallen off the bus|Failed to initialize NVML`)

// notTheDevice matches errors of CUDA that are the program's or the installation's: no
// other GPU would do better. Further errors often follow them.
var notTheDevice = pattern(
	`device-side assert triggered|cudaErrorAssert|CUDA_ERROR_ASSERT` +
		`|no kernel image is available|cudaErrorNoKernelImageForDevice|CUDA_ERROR_NO_BINARY_FOR_GPU` +
		`|invalid device ordinal|cudaErrorInvalidDevice\b|CUDA_ERROR_INVALID_DEVICE` +
		`|invalid (configuration )?argument|cudaErrorInvalid(Value|Configuration)|CUDA_ERROR_INVALID_VALUE` +
		`|driver version is insufficient|cudaErrorInsufficientDriver`)

// DeviceFault reports whether the end of a failed job's log shows an error that can be its
// GPU's fault.
func DeviceFault(tail []byte) bool {
	if !deviceFault().Match(tail) || notTheDevice().Match(tail) || OutOfMemory(tail) {
		return false
	}
	return deviceFault().Match(noFailure().ReplaceAll(tail, nil))
}
