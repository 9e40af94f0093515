package probe

import "fmt"

// simInstead ends every hint.
const simInstead = "; or simulate GPUs: --sim 4x24GiB"

func missingBuild() *Missing {
	return &Missing{Text: "this gpurun was built without NVML",
		Hint: "rebuild it with a C compiler and CGO_ENABLED=1" + simInstead}
}

func missingLibrary(text string) *Missing {
	return &Missing{Text: "no NVIDIA driver found: " + text,
		Hint: "install it, or point to its libnvidia-ml.so.1 with --nvml PATH (or GPURUN_NVML)" + simInstead}
}

func missingFunction(name string) *Missing {
	return &Missing{Text: "the NVIDIA driver is too old, or this is not its library: it lacks " + name,
		Hint: "update the driver, or point to its libnvidia-ml.so.1 with --nvml PATH (or GPURUN_NVML)" + simInstead}
}

// NVML return codes that matter here, as numbered in nvml.h.
const (
	codeUninitialized   = 1
	codeNoPermission    = 4
	codeDriverNotLoaded = 9
	codeGPULost         = 15
	codeResetRequired   = 16
	codeMismatch        = 18
	codeUnknown         = 999
)

// codeTexts describe NVML's return codes. NVML's own function for that may be
// missing like any other. Newer drivers may return codes that are not listed.
var codeTexts = map[int]string{
	codeUninitialized:   "NVML is no longer initialized",
	2:                   "the GPU is no longer known",
	3:                   "not supported",
	codeNoPermission:    "no permission",
	6:                   "not found",
	8:                   "its power cables are not attached",
	codeDriverNotLoaded: "the driver is not loaded",
	10:                  "timed out",
	11:                  "the kernel has a problem with its interrupts",
	13:                  "the driver lacks this function",
	codeGPULost:         "GPU is lost: it has fallen off the bus",
	codeResetRequired:   "GPU needs a reset",
	17:                  "blocked by the operating system",
	codeMismatch:        "the driver's library and kernel module do not match",
	19:                  "in use by another client",
	20:                  "not enough memory",
	27:                  "GPU is not ready",
	28:                  "GPU not found",
	codeUnknown:         "unknown driver error",
}

// codeText returns "GPU is lost: it has fallen off the bus (NVML error 15)".
func codeText(code int) string {
	if text, ok := codeTexts[code]; ok {
		return fmt.Sprintf("%s (NVML error %d)", text, code)
	}
	return fmt.Sprintf("NVML error %d", code)
}

// missingInit explains why NVML could not be initialized and how to fix it.
func missingInit(code int) *Missing {
	m := &Missing{Text: "the NVIDIA driver does not start: " + codeText(code), Hint: "check that nvidia-smi works"}
	switch code {
	case codeMismatch:
		m.Text = "the NVIDIA driver's library and its kernel module do not match: " +
			"the packages were upgraded, but the old module is still loaded (NVML error 18)"
		m.Hint = "reboot, or reload the nvidia modules"
	case codeDriverNotLoaded:
		m.Text = "the NVIDIA driver is installed but not loaded (NVML error 9)"
		m.Hint = "load it (modprobe nvidia), and check that nvidia-smi works"
	case codeNoPermission:
		m.Text = "no permission to use the NVIDIA driver (NVML error 4)"
		m.Hint = "check the permissions of /dev/nvidiactl and /dev/nvidia0"
	case codeUnknown:
		m.Hint = "if a container lost its GPUs (systemctl daemon-reload on the host does that), restart the container; " +
			"otherwise check that nvidia-smi works"
	}
	m.Hint += simInstead
	return m
}
