package probe

import (
	"fmt"
	"math"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"gpurun/gpu"
	"gpurun/state/host"
)

// Cores returns how many CPU cores affinity and cgroups allow, 0 if unknown.
func Cores() int {
	n := 0
	var set unix.CPUSet
	if unix.SchedGetaffinity(0, &set) == nil {
		n = set.Count()
	}
	for _, dir := range cgroups() {
		quota, period, ok := strings.Cut(firstLine(filepath.Join(dir, "cpu.max")), " ")
		q, err1 := strconv.ParseFloat(quota, 64)
		p, err2 := strconv.ParseFloat(period, 64)
		if ok && err1 == nil && err2 == nil && p > 0 {
			n = min(n, max(1, int(math.Ceil(q/p))))
		}
	}
	return n
}

// Memory returns how much memory the machine and the cgroups allow, 0 if unknown.
func Memory() gpu.Bytes {
	total := Machine().RAM
	for _, dir := range cgroups() {
		if n, err := strconv.ParseInt(firstLine(filepath.Join(dir, "memory.max")), 10, 64); err == nil && (total == 0 || gpu.Bytes(n) < total) {
			total = gpu.Bytes(n)
		}
	}
	return total
}

// Machine returns the cores and the memory of the host, whatever this process may have of them;
// 0 for what is unknown.
func Machine() (all gpu.Beyond) {
	online, _ := host.ParseCores(firstLine("/sys/devices/system/cpu/online"))
	all.CPUs = online.Count()
	var kib gpu.Bytes
	_, _ = fmt.Sscanf(firstLine("/proc/meminfo"), "MemTotal: %d kB", &kib)
	all.RAM = kib * gpu.KiB
	return all
}

// cgroups returns the folders of this process's cgroup (version 2) and its ancestors.
func cgroups() (dirs []string) {
	b, _ := os.ReadFile("/proc/self/cgroup")
	for line := range strings.Lines(string(b)) {
		path, ok := strings.CutPrefix(strings.TrimSpace(line), "0::/")
		for dir := filepath.Join("/sys/fs/cgroup", path); ok; dir = filepath.Dir(dir) {
			dirs = append(dirs, dir)
			ok = dir != "/sys/fs/cgroup"
		}
	}
	return dirs
}

func firstLine(path string) string {
	b, _ := os.ReadFile(path)
	s, _, _ := strings.Cut(string(b), "\n")
	return s
}
