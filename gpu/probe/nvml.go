//go:build linux && cgo

package probe

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/NVIDIA/go-nvml/pkg/dl"
	"github.com/NVIDIA/go-nvml/pkg/nvml"

	"gpurun/gpu"
)

// Only the files of this package that need cgo use go-nvml, and their code runs only in the child.
// It follows these rules:
//   - Call nothing before NVML is initialized, and no function before its symbol was found: calling
//     an unresolved one ends the process (exit 127). So go-nvml's texts for return codes, which need
//     such a function, are not used.
//   - Read handles, names and UUIDs once; read a handle again after an error.
//   - A value that cannot be read is unknown, and affects no other value.

// withNVML reports whether this program can load NVML at all.
const withNVML = true

// defaultLibrary is the name that the loader searches for.
const defaultLibrary = "libnvidia-ml.so.1"

// A session holds an initialized NVML.
type session struct {
	hello
	lib     nvml.Interface
	has     map[string]bool // symbols looked up so far
	known   map[gpu.UUID]*device
	owners  *owners
	events  nvml.EventSet // critical errors of all GPUs; nil if the driver cannot report them
	noLists bool          // process lists are not read, because this driver's lists overrun memory or are endless
}

// A device is a session's record of a device.
type device struct {
	gpu.Device
	handle nvml.Device // nil after a failure
	read   bool        // at least once
	failed bool        // in the last reading
	newest uint64      // timestamp of its newest utilization sample, in microseconds
	xid    int         // number of a critical error since its last full reading, if it is a signature; else 0
}

// versions returns all versions of a function's name; go-nvml calls the newest one.
func versions(name string) []string { return []string{name + "_v3", name + "_v2", name} }

// required lists the functions that a driver must have, with their versions. One version of each is
// enough.
var required = [][]string{
	{"nvmlInit_v2", "nvmlInit"},
	{"nvmlDeviceGetCount_v2", "nvmlDeviceGetCount"},
	{"nvmlDeviceGetHandleByIndex_v2", "nvmlDeviceGetHandleByIndex"},
	{"nvmlDeviceGetUUID"},
}

// openSession loads and initializes NVML and lists the devices.
func openSession(library string, lists bool) (*session, hello) {
	library = cmp.Or(library, defaultLibrary)
	if m := checkLibrary(library); m != nil {
		return nil, hello{Missing: m}
	}
	s := &session{
		lib: nvml.New(nvml.WithLibraryPath(library)), has: map[string]bool{}, known: map[gpu.UUID]*device{},
		owners: newOwners("/proc"), noLists: !lists,
	}
	if ret := s.lib.Init(); ret != nvml.SUCCESS {
		return nil, hello{Missing: missingInit(ret)}
	}
	s.Version = s.version()
	if ret := s.list(); ret != nvml.SUCCESS {
		return nil, hello{Missing: missingInit(ret)}
	}
	s.register()
	return s, s.hello
}

// checkLibrary opens the library separately, to get the loader's error if that fails, and checks
// that it has the required functions.
func checkLibrary(library string) *Missing {
	l := dl.New(library, dl.RTLD_LAZY|dl.RTLD_GLOBAL)
	if err := l.Open(); err != nil {
		return missingLibrary(err.Error())
	}
	for _, names := range required {
		if !slices.ContainsFunc(names, func(name string) bool { return l.Lookup(name) == nil }) {
			return missingFunction(names[0])
		}
	}
	return nil
}

// can reports whether the driver has any of these functions.
func (s *session) can(names ...string) bool {
	return slices.ContainsFunc(names, func(name string) bool {
		found, known := s.has[name]
		if !known {
			found = s.lib.Extensions().LookupSymbol(name) == nil
			s.has[name] = found
		}
		return found
	})
}

// query calls f if the driver has a function with one of these names. It recovers from panics,
// because go-nvml's list functions panic if a driver reports more records than requested.
func query[T any](s *session, f func() (T, nvml.Return), names ...string) (v T, ret nvml.Return) {
	if !s.can(names...) {
		return v, nvml.ERROR_FUNCTION_NOT_FOUND
	}
	defer func() {
		if recover() != nil {
			ret = nvml.ERROR_UNKNOWN
		}
	}()
	return f()
}

// version returns "NVML 13.580.65.06, driver 580.65.06".
func (s *session) version() string {
	driver, _ := query(s, s.lib.SystemGetDriverVersion, "nvmlSystemGetDriverVersion")
	lib, _ := query(s, s.lib.SystemGetNVMLVersion, "nvmlSystemGetNVMLVersion")
	if overrunsLists(driver) {
		s.noLists = true
		s.Warnings = append(s.Warnings, "driver "+driver+" has broken process lists, so gpurun does not read them: update the driver to 535.98 or newer")
	}
	return "NVML " + cmp.Or(lib, "unknown") + ", driver " + cmp.Or(driver, "unknown")
}

// overrunsLists reports whether a driver is one of 535.43 to 535.86, whose process records are
// longer than declared in the header.
func overrunsLists(driver string) bool {
	var major, minor int
	if _, err := fmt.Sscanf(driver, "%d.%d", &major, &minor); err != nil {
		return false
	}
	return major == 535 && 43 <= minor && minor <= 86
}

// list finds the devices, in PCI order. It leaves out GPUs that this user may not use. GPUs that do
// not respond are included: they come last, by index.
func (s *session) list() nvml.Return {
	n, ret := s.lib.DeviceGetCount()
	if ret != nvml.SUCCESS {
		return ret
	}
	var silent []gpu.Device
	for i := range n {
		d, ret := s.at(i)
		switch {
		case ret == nvml.ERROR_NO_PERMISSION:
			s.leaveOut("skipping GPU %d: %s", i, ret)
		case ret != nvml.SUCCESS:
			s.leaveOut("GPU %d does not answer: %s", i, ret)
			d.Device = gpu.Device{Index: i, UUID: silentUUID(i), Silent: true}
			silent = append(silent, d.Device)
			s.known[d.UUID] = d
		case s.partitioned(d.handle):
			s.Partial = true // the GPU itself is left out; how CUDA counts it next to MIG instances is undocumented
			s.Devices = append(s.Devices, s.instances(d)...)
		default:
			s.add(d)
			s.Devices = append(s.Devices, d.Device)
		}
	}
	slices.SortStableFunc(s.Devices, func(a, b gpu.Device) int { return cmp.Compare(a.PCI, b.PCI) })
	s.Devices = append(s.Devices, silent...)
	return nvml.SUCCESS
}

// leaveOut records why a device is not listed, or is listed as silent. The last argument is a
// return code.
func (s *session) leaveOut(format string, args ...any) {
	s.Partial = true
	args[len(args)-1] = codeText(args[len(args)-1].(nvml.Return))
	s.Warnings = append(s.Warnings, fmt.Sprintf(format, args...))
}

// at returns the GPU with an index.
func (s *session) at(index int) (*device, nvml.Return) {
	h, ret := s.lib.DeviceGetHandleByIndex(index)
	if ret != nvml.SUCCESS {
		return &device{}, ret
	}
	return s.describe(h, index)
}

// describe reads the constant properties of a device.
func (s *session) describe(h nvml.Device, index int) (*device, nvml.Return) {
	uuid, ret := h.GetUUID()
	if ret != nvml.SUCCESS {
		return &device{}, ret
	}
	d := &device{Device: gpu.Device{Index: index, UUID: gpu.UUID(uuid), Links: map[gpu.UUID]gpu.Closeness{}}, handle: h}
	d.Name, _ = query(s, h.GetName, "nvmlDeviceGetName")
	if pci, ret := query(s, h.GetPciInfo, versions("nvmlDeviceGetPciInfo")...); ret == nvml.SUCCESS {
		d.PCI = fmt.Sprintf("%08X:%02X:%02X.0", pci.Domain, pci.Bus, pci.Device)
		d.NUMA, d.Cores = locate(pci)
	}
	m, _ := s.memory(h)
	d.Total = max(0, m.total)
	d.ComputeMode = s.computeMode(h)
	return d, nvml.SUCCESS
}

// partitioned reports whether a GPU is in MIG mode, in which only its instances are usable.
func (s *session) partitioned(h nvml.Device) bool {
	if !s.can("nvmlDeviceGetMigMode") || !s.can("nvmlDeviceGetMaxMigDeviceCount") || !s.can("nvmlDeviceGetMigDeviceHandleByIndex") {
		return false
	}
	now, _, ret := h.GetMigMode()
	return ret == nvml.SUCCESS && now == nvml.DEVICE_MIG_ENABLE
}

// instances lists the MIG instances of a GPU.
func (s *session) instances(parent *device) (devs []gpu.Device) {
	n, ret := parent.handle.GetMaxMigDeviceCount()
	if ret != nvml.SUCCESS {
		s.leaveOut("skipping GPU %d: cannot count its MIG instances: %s", parent.Index, ret)
	}
	for i := range n {
		h, ret := parent.handle.GetMigDeviceHandleByIndex(i)
		if ret == nvml.ERROR_NOT_FOUND {
			continue // an empty slot
		}
		var d *device
		if ret == nvml.SUCCESS {
			d, ret = s.describe(h, parent.Index)
		}
		if ret != nvml.SUCCESS {
			s.leaveOut("GPU %d: skipping MIG instance %d: %s", parent.Index, i, ret)
			continue
		}
		d.MIG, d.Parent, d.PCI, d.NUMA, d.Cores = true, parent.UUID, parent.PCI, parent.NUMA, parent.Cores
		if d.Name == "" || d.Name == parent.Name {
			d.Name = strings.TrimSpace(parent.Name + " MIG")
		}
		devs = append(devs, d.Device)
		s.known[d.UUID] = d
	}
	return devs
}

// silentPrefix begins the placeholder UUID of a GPU that does not respond when devices are listed.
// It is used until the GPU reports its own UUID.
const silentPrefix = "GPU?"

func silentUUID(index int) gpu.UUID { return gpu.UUID(silentPrefix + strconv.Itoa(index)) }

// silentIndex returns the index in a placeholder UUID.
func silentIndex(id gpu.UUID) (int, bool) {
	text, ok := strings.CutPrefix(string(id), silentPrefix)
	n, err := strconv.Atoi(text)
	return n, ok && err == nil
}
