package hostsim

import (
	"math/rand/v2"
	"testing"
	"time"

	"gpurun/gpu"
	"gpurun/jobspec"
)

// One of three users allows sharing. Their jobs seem to hold little of a GPU, although they mostly
// run alone on it.
func TestSharingUserGetsNoMoreThanTheirShare(t *testing.T) {
	const packer = 1003
	for _, c := range []struct {
		name string
		req  gpu.Request
	}{
		{"hardly any memory", gpu.Request{Memory: gpu.MiB}},
		{"two slots", gpu.Request{Memory: total / 2, Slots: 2}},
		{"many slots, hardly any memory", gpu.Request{Memory: gpu.MiB, Slots: 8}},
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
				had := 0.0 // each GPU counts by the fraction of its jobs that are the user's
				for until := h.now + span; h.now < until; h.play(h.now + every) {
					for i := range h.gpus {
						theirs, all := 0, 0
						for p := range h.running(i) {
							if all++; p.uid == packer {
								theirs++
							}
						}
						had += float64(theirs) / float64(max(all, 1))
					}
				}
				if gets := had / float64(span/every*2/3); gets > 1.25 || gets < 0.75 {
					t.Errorf("seed %d: the user who shares got %.2f of a third of the GPU time, want about 1", seed, gets)
				}
			}
		})
	}
}
