//go:build linux && cgo

package probe

import (
	"fmt"

	"github.com/NVIDIA/go-nvml/pkg/nvml"
)

func missingLibrary(text string) *Missing {
	return &Missing{Text: "no NVIDIA driver found: " + text,
		Hint: "install it, or point to its libnvidia-ml.so.1 with --nvml PATH (or GPURUN_NVML)" + simInstead}
}

func missingFunction(name string) *Missing {
	return &Missing{Text: "the NVIDIA driver is too old, or the library is not NVML: it lacks " + name,
		Hint: "update the driver, or point to its libnvidia-ml.so.1 with --nvml PATH (or GPURUN_NVML)" + simInstead}
}

// codeTexts describe NVML's return codes. NVML's own function for this may be missing, like any
// other. Newer drivers may return codes that are not listed.
var codeTexts = map[nvml.Return]string{
	nvml.ERROR_UNINITIALIZED:           "NVML is no longer initialized",
	nvml.ERROR_INVALID_ARGUMENT:        "the driver no longer recognizes the GPU",
	nvml.ERROR_NOT_SUPPORTED:           "not supported",
	nvml.ERROR_NO_PERMISSION:           "no permission",
	nvml.ERROR_NOT_FOUND:               "not found",
	nvml.ERROR_INSUFFICIENT_POWER:      "its power cables are not attached",
	nvml.ERROR_DRIVER_NOT_LOADED:       "the driver is not loaded",
	nvml.ERROR_TIMEOUT:                 "timed out",
	nvml.ERROR_IRQ_ISSUE:               "the kernel detected a problem with the GPU's interrupts",
	nvml.ERROR_FUNCTION_NOT_FOUND:      "the driver does not have this function",
	nvml.ERROR_GPU_IS_LOST:             "GPU is lost: it has fallen off the bus",
	nvml.ERROR_RESET_REQUIRED:          "GPU needs a reset",
	nvml.ERROR_OPERATING_SYSTEM:        "blocked by the operating system",
	nvml.ERROR_LIB_RM_VERSION_MISMATCH: "the driver's library and kernel module do not match",
	nvml.ERROR_IN_USE:                  "in use by another client",
	nvml.ERROR_MEMORY:                  "not enough memory",
	nvml.ERROR_NOT_READY:               "GPU is not ready",
	nvml.ERROR_GPU_NOT_FOUND:           "GPU not found",
	nvml.ERROR_UNKNOWN:                 "unknown driver error",
}

// codeText returns "GPU is lost: it has fallen off the bus (NVML error 15)".
func codeText(code nvml.Return) string {
	if text, ok := codeTexts[code]; ok {
		return fmt.Sprintf("%s (NVML error %d)", text, code)
	}
	return fmt.Sprintf("NVML error %d", code)
}

// missingInit explains why NVML could not be initialized and how to fix it.
func missingInit(code nvml.Return) *Missing {
	m := &Missing{Text: "the NVIDIA driver failed to initialize: " + codeText(code), Hint: "check that nvidia-smi works"}
	switch code {
	case nvml.ERROR_LIB_RM_VERSION_MISMATCH:
		m.Text = "the NVIDIA driver's library and its kernel module do not match: " +
			"the packages were upgraded, but the old module is still loaded (NVML error 18)"
		m.Hint = "reboot, or reload the nvidia modules"
	case nvml.ERROR_DRIVER_NOT_LOADED:
		m.Text = "the NVIDIA driver is installed but not loaded (NVML error 9)"
		m.Hint = "load it (modprobe nvidia), and check that nvidia-smi works"
	case nvml.ERROR_NO_PERMISSION:
		m.Text = "no permission to use the NVIDIA driver (NVML error 4)"
		m.Hint = "check the permissions of /dev/nvidiactl and /dev/nvidia0"
	case nvml.ERROR_UNKNOWN:
		m.Hint = "if a container lost its GPUs (for example after systemctl daemon-reload on the host), restart the container; " +
			"otherwise check that nvidia-smi works"
	}
	m.Hint += simInstead
	return m
}
