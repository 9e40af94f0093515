package probe

import (
	"fmt"
	"math"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"

	"gpurun/gpu"
	"gpurun/state/host"
)

// Cores returns how many CPU cores this process may use, according to its affinity and its cgroups
// (v1 and v2).
func Cores() int {
	n := runtime.NumCPU()
	bound := func(quota, period string) {
		q, err1 := strconv.ParseFloat(quota, 64)
		p, err2 := strconv.ParseFloat(period, 64)
		if err1 == nil && err2 == nil && p > 0 && q > 0 {
			n = min(n, max(1, int(math.Ceil(q/p))))
		}
	}
	for _, dir := range cgroups("") {
		quota, period, _ := strings.Cut(firstLine(filepath.Join(dir, "cpu.max")), " ")
		bound(quota, period)
	}
	for _, dir := range cgroups("cpu") {
		bound(firstLine(filepath.Join(dir, "cpu.cfs_quota_us")), firstLine(filepath.Join(dir, "cpu.cfs_period_us")))
	}
	return n
}

// Memory returns how much memory this process may use, according to the machine's memory and the
// process's cgroups (v1 and v2); 0 if unknown.
func Memory() gpu.Bytes {
	total := Machine().RAM
	bound := func(n gpu.Bytes) {
		if n > 0 && (total == 0 || n < total) {
			total = n
		}
	}
	for controller, file := range map[string]string{"": "memory.max", "memory": "memory.limit_in_bytes"} {
		for _, dir := range cgroups(controller) {
			n, _ := strconv.ParseInt(firstLine(filepath.Join(dir, file)), 10, 64)
			bound(gpu.Bytes(n))
		}
	}
	return total
}

// Machine returns the cores and memory of the host, regardless of this process's limits. Each is 0
// if unknown.
func Machine() (all gpu.HostResources) {
	online, _ := host.ParseCores(firstLine("/sys/devices/system/cpu/online"))
	all.CPUs = online.Count()
	var kib gpu.Bytes
	_, _ = fmt.Sscanf(firstLine("/proc/meminfo"), "MemTotal: %d kB", &kib)
	all.RAM = kib * gpu.KiB
	return all
}

// cgroups returns the folders of this process's cgroup and its ancestors, for a controller of
// version 1, or for version 2 if controller is "".
func cgroups(controller string) (dirs []string) {
	b, _ := os.ReadFile("/proc/self/cgroup")
	for line := range strings.Lines(string(b)) {
		f := strings.SplitN(strings.TrimSpace(line), ":", 3)
		if len(f) < 3 || !slices.Contains(strings.Split(f[1], ","), controller) {
			continue
		}
		root := filepath.Join("/sys/fs/cgroup", controller)
		for dir := filepath.Join(root, f[2]); ; dir = filepath.Dir(dir) {
			dirs = append(dirs, dir)
			if dir == root {
				break
			}
		}
	}
	return dirs
}

func firstLine(path string) string {
	b, _ := os.ReadFile(path)
	s, _, _ := strings.Cut(string(b), "\n")
	return s
}
