//go:build linux && cgo

package probe

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/NVIDIA/go-nvml/pkg/dl"
	"github.com/NVIDIA/go-nvml/pkg/nvml"

	"gpurun/gpu"
)

// Rules for this file and nvmlread.go, which alone use go-nvml, and only in the
// child:
//
//   - Call nothing before NVML is initialized, and no function before its symbol
//     was found: an unresolved one ends the process (exit 127). That rules out
//     go-nvml's texts for return codes, too.
//   - Read handles, names and UUIDs once; read a handle again after an error.
//   - A value that cannot be read is unknown, and affects no other value.

// withNVML reports whether this program can load NVML at all.
const withNVML = true

// defaultLibrary is the name that the loader looks up.
const defaultLibrary = "libnvidia-ml.so.1"

// A session is an initialized NVML.
type session struct {
	lib      nvml.Interface
	has      map[string]bool // symbols looked up so far
	devs     []gpu.Device
	handles  map[gpu.UUID]nvml.Device
	lastSeen map[gpu.UUID]uint64 // timestamp of the newest utilization sample, in microseconds
	owners   *owners
	noLists  bool              // this driver's process lists overrun memory
	fails    map[gpu.UUID]bool // whether the last reading of a device failed
	warnings []string
	partial  bool // a device was left out
}

// required lists functions of which any usable driver has at least one version.
var required = [][]string{
	{"nvmlInit_v2", "nvmlInit"},
	{"nvmlDeviceGetCount_v2", "nvmlDeviceGetCount"},
	{"nvmlDeviceGetHandleByIndex_v2", "nvmlDeviceGetHandleByIndex"},
	{"nvmlDeviceGetUUID"},
}

// openSession loads and initializes NVML and lists the devices.
func openSession(library string, lists bool) (*session, hello) {
	if library == "" {
		library = defaultLibrary
	}
	if m := checkLibrary(library); m != nil {
		return nil, hello{Missing: m}
	}
	s := &session{
		lib: nvml.New(nvml.WithLibraryPath(library)), has: map[string]bool{},
		handles: map[gpu.UUID]nvml.Device{}, lastSeen: map[gpu.UUID]uint64{}, owners: newOwners("/proc"),
		fails: map[gpu.UUID]bool{}, noLists: !lists,
	}
	if ret := s.lib.Init(); ret != nvml.SUCCESS {
		return nil, hello{Missing: missingInit(int(ret))}
	}
	version := s.version()
	if err := s.list(); err != nil {
		return nil, hello{Missing: err}
	}
	return s, hello{Devices: s.devs, Version: version, Warnings: s.warnings, Partial: s.partial}
}

// checkLibrary opens the library once on its own, to get the loader's error if
// that fails, and checks for the required functions.
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

// can reports whether the driver has one of these functions.
func (s *session) can(names ...string) bool {
	for _, name := range names {
		found, known := s.has[name]
		if !known {
			found = s.lib.Extensions().LookupSymbol(name) == nil
			s.has[name] = found
		}
		if found {
			return true
		}
	}
	return false
}

// version returns "NVML 13.580.65.06, driver 580.65.06".
func (s *session) version() string {
	driver, lib := "unknown", "unknown"
	if s.can("nvmlSystemGetDriverVersion") {
		if v, ret := s.lib.SystemGetDriverVersion(); ret == nvml.SUCCESS {
			driver = v
		}
	}
	if s.can("nvmlSystemGetNVMLVersion") {
		if v, ret := s.lib.SystemGetNVMLVersion(); ret == nvml.SUCCESS {
			lib = v
		}
	}
	if overrunsLists(driver) {
		s.noLists = true
		s.warnings = append(s.warnings, "driver "+driver+" has broken process lists, which are not read: update it to 535.98 or newer")
	}
	return "NVML " + lib + ", driver " + driver
}

// overrunsLists reports whether a driver is one of 535.43 to 535.86, whose
// process records are longer than their own header says.
func overrunsLists(driver string) bool {
	var major, minor int
	if _, err := fmt.Sscanf(driver, "%d.%d", &major, &minor); err != nil {
		return false
	}
	return major == 535 && 43 <= minor && minor <= 86
}

// list finds the devices. It leaves out GPUs that this user may not use.
func (s *session) list() *Missing {
	n, ret := s.lib.DeviceGetCount()
	if ret != nvml.SUCCESS {
		return missingInit(int(ret))
	}
	for i := range n {
		d, ret := s.lib.DeviceGetHandleByIndex(i)
		dev := gpu.Device{}
		if ret == nvml.SUCCESS {
			dev, ret = s.describe(d, i)
		}
		if ret == nvml.ERROR_NO_PERMISSION {
			s.leaveOut("GPU %d is left out: %s", i, codeText(int(ret)))
			continue
		}
		if ret != nvml.SUCCESS {
			s.silent(i, ret)
			continue
		}
		if s.partitioned(d) {
			s.instances(d, dev)
			continue
		}
		s.add(dev, d)
	}
	slices.SortStableFunc(s.devs, func(a, b gpu.Device) int {
		if a.Silent != b.Silent {
			return cmp.Compare(b.PCI, a.PCI) // silent devices have no known place: they go last
		}
		return cmp.Compare(a.PCI, b.PCI)
	})
	return nil
}

// leaveOut records why a device is not listed.
func (s *session) leaveOut(format string, args ...any) {
	s.partial = true
	s.warnings = append(s.warnings, fmt.Sprintf(format, args...))
}

func (s *session) add(dev gpu.Device, d nvml.Device) {
	s.devs = append(s.devs, dev)
	s.handles[dev.UUID] = d
}

// describe reads what never changes about a device.
func (s *session) describe(d nvml.Device, index int) (gpu.Device, nvml.Return) {
	uuid, ret := d.GetUUID()
	if ret != nvml.SUCCESS {
		return gpu.Device{}, ret
	}
	dev := gpu.Device{Index: index, UUID: gpu.UUID(uuid)}
	if s.can("nvmlDeviceGetName") {
		if name, ret := d.GetName(); ret == nvml.SUCCESS {
			dev.Name = name
		}
	}
	if s.can("nvmlDeviceGetPciInfo_v3", "nvmlDeviceGetPciInfo_v2", "nvmlDeviceGetPciInfo") {
		if pci, ret := d.GetPciInfo(); ret == nvml.SUCCESS {
			dev.PCI = fmt.Sprintf("%08X:%02X:%02X.0", pci.Domain, pci.Bus, pci.Device)
		}
	}
	if m := s.memory(d); m.total > 0 {
		dev.Total = m.total
	}
	dev.ComputeMode = s.computeMode(d)
	return dev, nvml.SUCCESS
}

// partitioned reports whether a GPU is in MIG mode, where only its instances are usable.
func (s *session) partitioned(d nvml.Device) bool {
	if !s.can("nvmlDeviceGetMigMode") || !s.can("nvmlDeviceGetMaxMigDeviceCount") || !s.can("nvmlDeviceGetMigDeviceHandleByIndex") {
		return false
	}
	now, _, ret := d.GetMigMode()
	return ret == nvml.SUCCESS && now == nvml.DEVICE_MIG_ENABLE
}

// instances lists the MIG instances of a GPU.
func (s *session) instances(parent nvml.Device, of gpu.Device) {
	n, ret := parent.GetMaxMigDeviceCount()
	if ret != nvml.SUCCESS {
		s.leaveOut("GPU %d is left out: its MIG instances cannot be counted: %s", of.Index, codeText(int(ret)))
		return
	}
	for i := range n {
		d, ret := parent.GetMigDeviceHandleByIndex(i)
		if ret == nvml.ERROR_NOT_FOUND {
			continue // an empty slot
		}
		dev := gpu.Device{}
		if ret == nvml.SUCCESS {
			dev, ret = s.describe(d, of.Index)
		}
		if ret != nvml.SUCCESS {
			s.leaveOut("GPU %d: MIG instance %d is left out: %s", of.Index, i, codeText(int(ret)))
			continue
		}
		dev.MIG, dev.Parent, dev.PCI = true, of.UUID, of.PCI
		if dev.Name == "" || dev.Name == of.Name {
			dev.Name = strings.TrimSpace(of.Name + " MIG")
		}
		s.add(dev, d)
	}
}
