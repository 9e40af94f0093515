package web

import (
	"bytes"
	"context"
	"encoding/json"
	"slices"
	"sync"
	"time"

	"gpurun/gpu"
	"gpurun/state/redact"
	"gpurun/state/schema"
)

// A hostWatch reads this host's GPUs and keeps the readings of the last hour.
type hostWatch struct {
	*watch[*schema.GPUs]
	step  time.Duration
	begun chan struct{} // closed after the first reading

	mu   sync.Mutex
	gpus []schema.PastGPU
	at   time.Time // time of the last reading
	n    int       // number of readings kept
}

// hour is how long readings are kept.
const hour = time.Hour

func (s *Server) watchHost() *hostWatch {
	h := &hostWatch{step: s.Limits.Past, begun: make(chan struct{})}
	h.watch = newWatch(s, s.Limits.Host, func(ctx context.Context) (*schema.GPUs, error) {
		d, err := s.Source.Host(ctx)
		return redact.Document(d, redact.Text), err
	})
	s.spawn(func() {
		for _, b := range s.Source.Batches() {
			h.recall(b.Readings(), time.Now())
		}
		tick := time.NewTicker(h.step)
		defer tick.Stop()
		for first := true; ; first = false {
			d, err := h.fresh()
			h.keep(d, err, time.Now())
			if first {
				close(h.begun)
			}
			select {
			case <-tick.C:
			case <-s.ctx.Done():
				return
			}
		}
	})
	return h
}

// recall restores the readings of the last hour after a restart of the server, from those that a
// batch's runs recorded.
func (h *hostWatch) recall(r *schema.Readings, at time.Time) {
	if r == nil || len(r.Time) == 0 || at.Sub(r.Time[len(r.Time)-1]) > hour {
		return
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	h.n, h.at = int(hour/h.step), at
	for _, g := range r.GPUs {
		p := h.past(schema.PastGPU{Index: g.Index, UUID: g.UUID, Name: schema.Value(g.Name), Total: g.Total})
		for k, t := range r.Time {
			first := h.n - 1 - int(at.Sub(t)/h.step)
			for n := max(0, first); n <= min(h.n-1, first+int(r.Step/h.step.Seconds())); n++ {
				if p.Used[n] = g.Used[k]; g.Util[k] != nil {
					util := int(*g.Util[k])
					p.Util[n] = &util
				}
			}
		}
	}
}

// past returns the readings of a GPU. It adds the GPU, without readings, if it is new.
func (h *hostWatch) past(g schema.PastGPU) *schema.PastGPU {
	i := slices.IndexFunc(h.gpus, func(p schema.PastGPU) bool { return p.UUID == g.UUID })
	if i < 0 {
		i = len(h.gpus)
		g.Used, g.Util = make([]*gpu.Bytes, h.n), make([]*int, h.n)
		h.gpus = append(h.gpus, g)
	}
	return &h.gpus[i]
}

// keep adds a reading. A failed reading leaves a gap.
func (h *hostWatch) keep(d *schema.GPUs, err error, at time.Time) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.at, h.n = at, min(h.n+1, int(hour/h.step))
	for i := range h.gpus {
		p := &h.gpus[i]
		p.Used, p.Util = append(p.Used, nil), append(p.Util, nil)
		p.Used, p.Util = p.Used[len(p.Used)-h.n:], p.Util[len(p.Util)-h.n:]
	}
	if err != nil {
		return
	}
	for _, g := range d.GPUs {
		p := h.past(schema.PastGPU{Index: g.Index, UUID: g.UUID, Name: g.Name, Total: g.Total})
		p.Used[h.n-1], p.Util[h.n-1] = g.Used, g.Util
	}
}

// lastHour returns the readings of the last hour.
func (h *hostWatch) lastHour(ctx context.Context) (*schema.Past, error) {
	select {
	case <-h.begun:
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	p := &schema.Past{Head: now(), From: h.at.Add(-time.Duration(max(0, h.n-1)) * h.step).UTC(), Step: h.step.Seconds(), GPUs: []schema.PastGPU{}}
	for _, g := range h.gpus {
		g.Used, g.Util = slices.Clone(g.Used), slices.Clone(g.Util)
		p.GPUs = append(p.GPUs, g)
	}
	return p, nil
}

// A listing is the encoded list of batches.
type listing struct{ json, rows []byte }

func (s *Server) watchList() *watch[*listing] {
	var last *listing
	return newWatch(s, s.Limits.Host, func(context.Context) (*listing, error) {
		doc := schema.Batches{Head: now(), Batches: []schema.BatchRow{}}
		for _, row := range s.rows() {
			doc.Batches = append(doc.Batches, redact.Document(row, redact.Text))
		}
		rows, err := json.Marshal(doc.Batches)
		if err != nil || last != nil && bytes.Equal(rows, last.rows) {
			return last, err
		}
		all, err := json.Marshal(doc)
		last = &listing{all, rows}
		return last, err
	})
}

// rows describes all batches. Files that run together are one batch.
func (s *Server) rows() (rows []schema.BatchRow) {
	together := map[string]bool{}
	for _, b := range s.Source.Batches() {
		row, err := b.Row()
		if err != nil || len(row.Files) == 0 {
			continue
		}
		if alive := row.Run != nil && row.Run.Alive; alive {
			if together[row.Files[0].Path] {
				continue
			}
			for _, f := range row.Files {
				together[f.Path] = true
			}
		}
		rows = append(rows, *row)
	}
	return rows
}
