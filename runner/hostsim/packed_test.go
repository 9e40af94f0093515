package hostsim

import (
	"math/rand/v2"
	"testing"
	"time"

	"gpurun/gpu"
	"gpurun/jobspec"
)

// One of three users shares each of two GPUs, mostly with no one, so their jobs seem to hold
// little.
func TestSharingUserGetsNoMoreThanTheirShare(t *testing.T) {
	const packer = 1003
	for _, c := range []struct {
		name string
		req  gpu.Request
	}{
		{"next to no memory", gpu.Request{Memory: gpu.MiB}},
		{"slots", gpu.Request{Memory: total / 2, Slots: 2}},
		{"many slots and no memory", gpu.Request{Memory: gpu.MiB, Slots: 8}},
	} {
		t.Run(c.name, func(t *testing.T) {
			for seed := uint64(1); seed <= 3; seed++ {
				rng := rand.New(rand.NewPCG(seed, 17))
				h := newHost(seed, 2)
				h.rules.Patience, h.rules.Gather = 10*time.Minute, 30*time.Minute
				h.spec = func(uid int, s *jobspec.Spec) {
					if uid == packer {
						s.Request.Memory, s.Request.Slots, s.Request.Share, s.Request.MaxUtil = c.req.Memory, c.req.Slots, true, 100
					}
				}
				h.set = func(uid int, s *jobspec.Settings) {
					if uid == packer {
						s.MaxConcurrent = 2
					}
				}
				h.takes = func(uid int) gpu.Bytes {
					if uid == packer {
						return gpu.MiB
					}
					return asked
				}
				for uid := 1001; uid <= packer; uid++ {
					var jobs []job
					for range 300 {
						jobs = append(jobs, job{1, time.Duration(60+rng.IntN(120)) * time.Second})
					}
					h.after(h.between(0, 10*time.Second), func() { h.gpurun(uid, jobs) })
				}
				h.play(h.now + 10*time.Minute)
				const span, every = 2 * time.Hour, time.Second
				had := 0.0 // each GPU counts by the fraction of its jobs that are theirs
				for until := h.now + span; h.now < until; h.play(h.now + every) {
					for i := range h.gpus {
						his, all := 0, 0
						for p := range h.running(i) {
							if all++; p.uid == packer {
								his++
							}
						}
						had += float64(his) / float64(max(all, 1))
					}
				}
				if gets := had / float64(span/every*2/3); gets > 1.25 || gets < 0.75 {
					t.Errorf("seed %d: who shares gets %.2f of a third", seed, gets)
				}
			}
		})
	}
}
