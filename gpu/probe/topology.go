//go:build linux && cgo

package probe

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/NVIDIA/go-nvml/pkg/nvml"

	"gpurun/gpu"
)

// sysPCI is the kernel's folder of PCI devices; tests replace it.
var sysPCI = "/sys/bus/pci/devices"

// locate reads the NUMA node of a PCI device, and the node's cores. A machine with a single node
// may not number it, in which case both are unknown.
func locate(pci nvml.PciInfo) (node, cores string) {
	dir := filepath.Join(sysPCI, fmt.Sprintf("%04x:%02x:%02x.0", pci.Domain, pci.Bus, pci.Device))
	read := func(name string) string {
		b, _ := os.ReadFile(filepath.Join(dir, name))
		return strings.TrimSpace(string(b))
	}
	node = read("numa_node")
	if node == "" || strings.HasPrefix(node, "-") {
		return "", ""
	}
	return node, read("local_cpulist")
}

// add adds a device to the session. For a whole GPU, it queries the connections to earlier ones, so
// that each pair is queried once.
func (s *session) add(d *device) {
	for _, other := range s.known {
		if d.MIG || other.MIG || other.handle == nil {
			continue
		}
		if c := s.between(d.handle, other.handle); c != "" {
			d.Links[other.UUID], other.Links[d.UUID] = c, c
		}
	}
	s.known[d.UUID] = d
}

// between queries the connection between two GPUs; "" if the driver does not report it.
func (s *session) between(a, b nvml.Device) gpu.Closeness {
	nvlink, ret := query(s, func() (nvml.GpuP2PStatus, nvml.Return) {
		return a.GetP2PStatus(b, nvml.P2P_CAPS_INDEX_NVLINK)
	}, "nvmlDeviceGetP2PStatus")
	if ret == nvml.SUCCESS && nvlink == nvml.P2P_STATUS_OK {
		return gpu.NVLink
	}
	level, ret := query(s, func() (nvml.GpuTopologyLevel, nvml.Return) {
		return a.GetTopologyCommonAncestor(b)
	}, "nvmlDeviceGetTopologyCommonAncestor")
	switch {
	case ret != nvml.SUCCESS:
		return ""
	case level <= nvml.TOPOLOGY_MULTIPLE:
		return gpu.Switch
	case level <= nvml.TOPOLOGY_NODE:
		return gpu.Node
	}
	return gpu.Far
}
