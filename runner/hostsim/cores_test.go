package hostsim

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"gpurun/gpu"
	"gpurun/jobspec"
)

// reserved returns the host resources of these users' running attempts.
func (h *host) reserved(uids ...int) (all gpu.HostResources) {
	for _, r := range h.runs {
		for _, at := range r.live {
			if at.proc != nil && at.proc.gone == 0 && slices.Contains(uids, r.uid) {
				s := r.spec
				if s != nil {
					var spec jobspec.Spec
					s(r.uid, &spec)
					all.CPUs, all.RAM = all.CPUs+spec.CPUs, all.RAM+spec.Memory
				}
			}
		}
	}
	return all
}

// A user with few jobs comes to a host where an earlier user holds the cores or the memory,
// although GPUs are free.
func TestLateUserGetsShareOfCoresAndMemory(t *testing.T) {
	for _, c := range []struct {
		name    string
		each    gpu.HostResources // of each job
		few     int               // GPUs per job of the last user
		greedy  gpu.HostResources // resources per job of the first user, if more than each
		most    time.Duration     // time until all jobs of the last user have started
		overMax int               // maximum number of cores granted twice
	}{
		{"cores", gpu.HostResources{CPUs: 1}, 1, gpu.HostResources{}, 10 * time.Second, 1},
		{"cores of jobs without GPUs", gpu.HostResources{CPUs: 1}, 0, gpu.HostResources{}, 10 * time.Second, 1},
		{"memory", gpu.HostResources{RAM: 30 * gpu.GiB}, 1, gpu.HostResources{}, 10 * time.Second, 0},
		{"memory of jobs without GPUs", gpu.HostResources{RAM: 30 * gpu.GiB}, 0, gpu.HostResources{}, 10 * time.Second, 0},
		{"each job takes all cores", gpu.HostResources{CPUs: 1}, 1, gpu.HostResources{CPUs: 2}, 10 * time.Second, 1},
		{"each job takes most memory", gpu.HostResources{RAM: 30 * gpu.GiB}, 0, gpu.HostResources{RAM: 60 * gpu.GiB}, 15 * time.Second, 0},
	} {
		for seed := uint64(1); seed <= 3; seed++ {
			t.Run(fmt.Sprint(c.name, ", seed ", seed), func(t *testing.T) {
				h := newHost(seed, 4)
				h.machine = gpu.HostResources{CPUs: 2, RAM: 64 * gpu.GiB}
				h.spec = func(uid int, s *jobspec.Spec) {
					s.CPUs, s.Memory = c.each.CPUs, c.each.RAM
					if uid == 1001 {
						s.CPUs, s.Memory = max(s.CPUs, c.greedy.CPUs), max(s.Memory, c.greedy.RAM)
					}
				}
				h.gpurun(1001, slices.Repeat([]job{{1, time.Second}}, 200))
				h.play(h.now + 20*time.Second)
				came := h.now
				h.gpurun(1002, slices.Repeat([]job{{c.few, time.Second}}, 5))
				for h.now < came+c.most {
					h.play(h.now + ms(10))
					if all := h.reserved(1001, 1002); all.CPUs > h.machine.CPUs+c.overMax || all.RAM > h.machine.RAM {
						t.Fatalf("after %s, %d cores and %s of memory are reserved", h.now-came, all.CPUs, all.RAM.Round())
					}
				}
				if n := len(h.meter.starts[1002]); n != 5 {
					t.Errorf("%d of 5 jobs of the last user have started", n)
				}
				before := len(h.meter.starts[1001])
				if h.play(h.now + 30*time.Second); len(h.meter.starts[1001]) < before+10 {
					t.Errorf("only %d jobs of the first user have started since", len(h.meter.starts[1001])-before)
				}
			})
		}
	}
}
