package state

import (
	"fmt"
	"math"
	"math/rand/v2"
	"reflect"
	"testing"
	"time"

	"gpurun/gpu"
)

// minutes returns n minutes of GPU time of a kind.
func minutes(kind UseKind, code gpu.Code, user string, n float64) GPUUse {
	return GPUUse{kind, code, user, n * 60}
}

// minute returns the Unix time n minutes after noon.
func minute(n float64) int64 { return noon.UnixNano() + int64(n*60e9) }

// readings returns rows one minute apart, with the reading that f returns for each GPU.
func readings(gpus, rows int, f func(gpu, row int) GPUReading) *GPUReadings {
	g := &GPUReadings{Step: time.Minute}
	for i := range gpus {
		g.Devices = append(g.Devices, GPUReadingDevice{UUID: gpu.UUID(fmt.Sprint("GPU-", i)), Index: i})
	}
	for row := range rows {
		r := GPUReadingRow{Unix: minute(float64(row)) / 1e9, GPUs: make([]GPUReading, gpus)}
		for i := range gpus {
			r.GPUs[i] = f(i, row)
		}
		g.Rows = append(g.Rows, r)
	}
	return g
}

func TestGPUUsesByKind(t *testing.T) {
	util := func(v float64) *float64 { return &v }
	hold := func(kind UseKind, from, to float64, ids ...gpu.UUID) GPUHolding {
		return GPUHolding{GPUs: ids, From: minute(from), To: minute(to), Kind: kind}
	}
	window := func(from, to float64, usable int) GPUHolding {
		return GPUHolding{From: minute(from), To: minute(to), Usable: usable}
	}
	run := window(0, 60, 1)
	busy := readings(1, 60, func(int, int) GPUReading { return GPUReading{Jobs: 1, Util: util(90)} })
	stalled, resumed := hold(UseFailed, 0, 60, "GPU-0"), hold(UseUseful, 0, 60, "GPU-0")
	stalled.Stalled, resumed.Stalled = []int64{minute(20)}, []int64{minute(20), minute(30), minute(55)}
	for name, tt := range map[string]struct {
		runs []GPUHolding
		held []GPUHolding
		read *GPUReadings
		want []GPUUse
	}{
		"a success, a failure and a free GPU": {
			[]GPUHolding{run}, []GPUHolding{hold(UseUseful, 0, 30, "GPU-0"), hold(UseFailed, 30, 40, "GPU-0")}, &GPUReadings{},
			[]GPUUse{minutes(UseUseful, "", "", 30), minutes(UseFailed, "", "", 10), minutes(UseFree, gpu.Unread, "", 20)},
		},
		"a job on two GPUs counts for each": {
			[]GPUHolding{window(0, 60, 3)}, []GPUHolding{hold(UseUseful, 0, 60, "GPU-0", "GPU-1")}, &GPUReadings{},
			[]GPUUse{minutes(UseUseful, "", "", 120), minutes(UseFree, gpu.Unread, "", 60)},
		},
		"three jobs on one GPU share its time": {
			[]GPUHolding{run}, []GPUHolding{hold(UseUseful, 0, 60, "GPU-0"), hold(UseUseful, 0, 60, "GPU-0"), hold(UseFailed, 0, 60, "GPU-0")}, busy,
			[]GPUUse{minutes(UseUseful, "", "", 40), minutes(UseFailed, "", "", 20)},
		},
		"stalled time of a failed job is idle": {
			[]GPUHolding{run}, []GPUHolding{stalled}, busy, []GPUUse{minutes(UseIdle, "", "", 40), minutes(UseFailed, "", "", 20)},
		},
		"stalled time of a success is idle": {
			[]GPUHolding{run}, []GPUHolding{resumed}, busy, []GPUUse{minutes(UseUseful, "", "", 45), minutes(UseIdle, "", "", 15)},
		},
		"idle after six minutes, not five, and not before the job": {
			[]GPUHolding{run}, []GPUHolding{hold(UseUseful, 2, 60, "GPU-0")},
			readings(1, 60, func(_, row int) GPUReading {
				if row < 2 {
					return GPUReading{Util: util(0)}
				}
				if row < 7 || row >= 20 && row < 26 {
					return GPUReading{Jobs: 1, Util: util(4.9)}
				}
				return GPUReading{Jobs: 1, Util: util(5)}
			}),
			[]GPUUse{minutes(UseUseful, "", "", 52), minutes(UseIdle, "", "", 6), minutes(UseFree, "", "", 2)},
		},
		"free while jobs wait, free, used by others": {
			[]GPUHolding{window(0, 60, 1)}, nil,
			readings(1, 50, func(_, row int) GPUReading {
				switch {
				case row < 10:
					return GPUReading{Code: "max_concurrent"}
				case row < 15:
					return GPUReading{Code: gpu.Claimed, User: "bob"}
				case row < 20:
					return GPUReading{Others: true}
				}
				return GPUReading{Util: util(0)}
			}),
			[]GPUUse{minutes(UseWaiting, "max_concurrent", "", 10), minutes(UseFree, "", "", 30), minutes(UseFree, gpu.Unread, "", 10), minutes(UseOthers, "", "", 5), minutes(UseOthers, "", "bob", 5)},
		},
		"the next run reattaches to an attempt": {
			[]GPUHolding{window(0, 10, 1), window(30, 40, 1)}, []GPUHolding{hold(UseUseful, 5, 35, "GPU-0")}, &GPUReadings{},
			[]GPUUse{minutes(UseUseful, "", "", 30), minutes(UseFree, gpu.Unread, "", 10)},
		},
		"a GPU that the run may not use": {
			[]GPUHolding{run}, nil, readings(2, 60, func(i, _ int) GPUReading {
				return GPUReading{Others: i == 0, Util: util(0), Code: []gpu.Code{gpu.NotManaged, ""}[i]}
			}), []GPUUse{minutes(UseFree, "", "", 60)},
		},
		"GPU of a cluster": {
			[]GPUHolding{window(0, 60, 0)}, []GPUHolding{hold(UseUseful, 10, 20, "node1 0")}, &GPUReadings{}, []GPUUse{minutes(UseUseful, "", "", 10)},
		},
		"nothing": {nil, nil, &GPUReadings{}, nil},
	} {
		t.Run(name, func(t *testing.T) {
			if got, _ := GPUUses(tt.runs, tt.held, tt.read); !reflect.DeepEqual(got, tt.want) {
				t.Errorf("got  %v\nwant %v", got, tt.want)
			}
		})
	}
}

// To the nanosecond, the uses must add up to the time of all usable GPUs in all runs, plus the time
// of other GPUs that attempts held, and of GPUs held outside of runs.
func TestGPUUsesAddUpToAllGPUTime(t *testing.T) {
	for seed := range uint64(300) {
		r := rand.New(rand.NewPCG(seed, 1))
		gpus, end := 1+r.IntN(4), 40+r.IntN(60)
		var windows []GPUHolding
		for from := r.IntN(10); from < end; {
			to := from + 1 + r.IntN(40)
			windows = append(windows, GPUHolding{From: minute(float64(from)), To: minute(float64(to)), Usable: gpus + r.IntN(2)})
			from = to + r.IntN(10)
		}
		var held []GPUHolding
		for range r.IntN(20) {
			from := float64(r.IntN(end))
			h := GPUHolding{From: minute(from), To: minute(from + float64(r.IntN(30))), Kind: []UseKind{UseUseful, UseFailed, UseRunning, UsePruned}[r.IntN(4)]}
			for _, i := range r.Perm(gpus)[:1+r.IntN(gpus)] {
				h.GPUs = append(h.GPUs, gpu.UUID(fmt.Sprint("GPU-", i)))
			}
			if r.IntN(3) == 0 {
				h.Stalled = []int64{minute(from + 0.3), minute(from + 1.3)}[:1+r.IntN(2)]
			}
			held = append(held, h)
		}
		g := readings(gpus, r.IntN(2*end), func(int, int) GPUReading {
			u := float64(r.IntN(8))
			return GPUReading{Jobs: r.IntN(2), Util: &u, Others: r.IntN(4) == 0, Code: []gpu.Code{"", "limit"}[r.IntN(2)]}
		})
		want := time.Duration(0)
		for m := range 2 * end {
			now, due := minute(float64(m)), 0
			for _, w := range windows {
				if w.From <= now && now < w.To {
					due = w.Usable
				}
			}
			on := map[gpu.UUID]bool{}
			for _, h := range held {
				for _, id := range h.GPUs {
					on[id] = on[id] || h.From <= now && now < h.To
				}
			}
			n := 0
			for _, is := range on {
				if is {
					n++
				}
			}
			want += time.Duration(max(due, n)) * time.Minute
		}
		parts, all := GPUUses(windows, held, g)
		got := 0.
		for _, u := range parts {
			if got += u.Seconds; u.Seconds <= 0 {
				t.Errorf("seed %d: use without time: %v", seed, u)
			}
		}
		if math.Round(got*1e9) != want.Seconds()*1e9 || math.Abs(got-all) > 1e-9 {
			t.Fatalf("seed %d: uses add up to %f s, total %f s, want %s", seed, got, all, want)
		}
	}
}
