package report

import (
	"cmp"
	"math"
	"slices"
	"time"

	"gpurun/gpu"
	"gpurun/state"
	"gpurun/state/schema"
)

// Readings converts the GPU readings of a batch. It returns nil if there are none.
func Readings(g *state.GPUReadings) *schema.Readings {
	if g == nil || len(g.Rows) == 0 {
		return nil
	}
	r := &schema.Readings{Step: g.Step.Seconds(), Time: make([]time.Time, len(g.Rows)), GPUs: make([]schema.ReadingsOfGPU, len(g.Devices))}
	for i := range g.Rows {
		r.Time[i] = time.Unix(g.Rows[i].Unix, 0).UTC()
	}
	for d, dev := range g.Devices {
		r.GPUs[d] = readingsOf(g, d, dev)
	}
	slices.SortStableFunc(r.GPUs, func(a, b schema.ReadingsOfGPU) int { return cmp.Compare(a.Index, b.Index) })
	return r
}

func readingsOf(g *state.GPUReadings, d int, dev state.GPUReadingDevice) schema.ReadingsOfGPU {
	n := len(g.Rows)
	r := schema.ReadingsOfGPU{
		Index: dev.Index, UUID: dev.UUID, Name: schema.Known(dev.Name), Total: schema.Known(dev.Total),
		Used: make([]*gpu.Bytes, n), Ours: make([]*gpu.Bytes, n), Util: make([]*float64, n), Jobs: make([]int, n), Others: make([]bool, n), Waits: []schema.GPUWait{},
	}
	for i := range g.Rows {
		if d >= len(g.Rows[i].GPUs) {
			continue
		}
		x := &g.Rows[i].GPUs[d]
		r.Used[i], r.Ours[i] = memory(x.Used), memory(x.Ours)
		r.Jobs[i], r.Others[i] = x.Jobs, x.Others
		if x.Util != nil {
			v := math.Round(10**x.Util) / 10
			r.Util[i] = &v
		}
		if x.Code != "" && x.Code != gpu.NotManaged {
			from := time.Unix(g.Rows[i].Unix, 0).UTC()
			r.Waits = extend(r.Waits, schema.GPUWait{From: from, To: from.Add(g.Step), Code: x.Code, User: schema.Known(x.User)})
		}
	}
	return r
}

func memory(mib *int) *gpu.Bytes {
	if mib == nil {
		return nil
	}
	b := gpu.Bytes(*mib) * gpu.MiB
	return &b
}

// extend appends a wait, or lengthens the last one if it is the same and adjacent.
func extend(list []schema.GPUWait, w schema.GPUWait) []schema.GPUWait {
	if n := len(list); n > 0 {
		last := &list[n-1]
		same := last.User == w.User || last.User != nil && w.User != nil && *last.User == *w.User
		if last.Code == w.Code && same && last.To.Equal(w.From) {
			last.To = w.To
			return list
		}
	}
	return append(list, w)
}
