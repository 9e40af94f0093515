package probe

import "fmt"

// simInstead is what every cure ends with.
const simInstead = "; or simulate GPUs: --sim 4x24GiB"

func missingBuild() *Missing {
	return &Missing{Text: "this gpurun was built without NVML",
		Hint: "build it with a C compiler and CGO_ENABLED=1" + simInstead}
}

func missingLibrary(text string) *Missing {
	return &Missing{Text: "no NVIDIA driver here: " + text,
		Hint: "install it, or name its libnvidia-ml.so.1 with --nvml PATH (or GPURUN_NVML)" + simInstead}
}

func missingFunction(name string) *Missing {
	return &Missing{Text: "the NVIDIA driver is too old, or this is not its library: it lacks " + name,
		Hint: "update the driver, or name its libnvidia-ml.so.1 with --nvml PATH (or GPURUN_NVML)" + simInstead}
}

// Return codes of NVML that mean something to us, as nvml.h numbers them.
const (
	codeUninitialized   = 1
	codeNoPermission    = 4
	codeDriverNotLoaded = 9
	codeGPULost         = 15
	codeResetRequired   = 16
	codeMismatch        = 18
	codeUnknown         = 999
)

// codeTexts say in words what NVML's return codes mean. NVML's own function for
// that may be missing like any other, and a new driver's codes are unknown here.
var codeTexts = map[int]string{
	codeUninitialized:   "NVML is no longer initialised",
	2:                   "the GPU is not known any more",
	3:                   "not supported",
	codeNoPermission:    "no permission",
	6:                   "not found",
	8:                   "its power cables are not attached",
	codeDriverNotLoaded: "the driver is not loaded",
	10:                  "timed out",
	11:                  "the kernel has trouble with its interrupts",
	13:                  "the driver lacks the function",
	codeGPULost:         "GPU is lost: it has fallen off the bus",
	codeResetRequired:   "GPU needs a reset",
	17:                  "the operating system blocks it",
	codeMismatch:        "the driver's library and kernel module do not match",
	19:                  "in use by another client",
	20:                  "not enough memory",
	27:                  "GPU is not ready",
	28:                  "GPU not found",
	codeUnknown:         "an unknown error of the driver",
}

// codeText is "GPU is lost: it has fallen off the bus (NVML error 15)".
func codeText(code int) string {
	if text, ok := codeTexts[code]; ok {
		return fmt.Sprintf("%s (NVML error %d)", text, code)
	}
	return fmt.Sprintf("NVML error %d", code)
}

// missingInit says why NVML could not be initialised, and the cure.
func missingInit(code int) *Missing {
	m := &Missing{Text: "the NVIDIA driver does not start: " + codeText(code), Hint: "see whether nvidia-smi works"}
	switch code {
	case codeMismatch:
		m.Text = "the NVIDIA driver's library and its kernel module do not match: " +
			"the packages were upgraded, and the module that is loaded is still the old one (NVML error 18)"
		m.Hint = "reboot, or unload and load the nvidia modules"
	case codeDriverNotLoaded:
		m.Text = "the NVIDIA driver is installed but not loaded (NVML error 9)"
		m.Hint = "load it (modprobe nvidia), and see whether nvidia-smi works"
	case codeNoPermission:
		m.Text = "no permission to use the NVIDIA driver (NVML error 4)"
		m.Hint = "see who may open /dev/nvidiactl and /dev/nvidia0"
	case codeUnknown:
		m.Hint = "in a container that has lost its GPUs (systemctl daemon-reload on the host does that), start the container anew; " +
			"else see whether nvidia-smi works"
	}
	m.Hint += simInstead
	return m
}
