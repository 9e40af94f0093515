package state

import (
	"encoding/json"
	"slices"
	"strings"
	"time"

	"gpurun/gpu"
)

// GPUReadings are how full and busy each GPU was over the life of a batch, and what kept jobs off
// it. They have a bounded size: when they are full, every two rows become one.
//
// Their text is a line of JSON for the devices and the step, and a line for each row. The
// last line of a file may be cut off.
type GPUReadings struct {
	Devices []GPUReadingDevice
	Step    time.Duration   // each row stands for so long
	Rows    []GPUReadingRow // oldest first; gaps where no run was alive
}

// A GPUReadingDevice is a device of which there are readings.
type GPUReadingDevice struct {
	UUID  gpu.UUID  `json:"uuid"`
	Index int       `json:"index"`
	Name  string    `json:"name,omitempty"`
	Total gpu.Bytes `json:"memory_total_bytes,omitempty"`
}

// A GPUReadingRow is what was read of all devices in one step.
type GPUReadingRow struct {
	Unix int64        `json:"time"` // its begin, a multiple of the step
	GPUs []GPUReading `json:"gpus"` // as in Devices; short for devices that came later
}

// A GPUReading is what was read of one device. Memory is that of the
// moment of the step when most was in use, in MiB so that a row stays short; utilization is
// the mean. What is unknown is null.
type GPUReading struct {
	Used   *int     `json:"used_mib,omitempty"`
	Ours   *int     `json:"ours_mib,omitempty"` // part of it that jobs of the batch had
	Util   *float64 `json:"util,omitempty"`     // percent
	Jobs   int      `json:"jobs,omitempty"`     // of the batch, on it
	Others bool     `json:"others,omitempty"`   // so was somebody else
	Code   gpu.Code `json:"code,omitempty"`     // why the first waiting job could not have it
	User   string   `json:"user,omitempty"`     // because of whom
	Looks  int      `json:"n,omitempty"`        // rows of the first step behind Util, if more than one
	Idle   bool     `json:"-"`                  // as Of finds out: a job had it for long, and hardly used it
}

// Bounds of GPUReadings: a step at first, and the number of readings kept, at about 70 bytes each.
const (
	firstStep   = 5 * time.Second
	maxReadings = 12000
)

// maxDevices bounds how many devices a file may name.
const maxDevices = 256

// Add adds readings. It returns the row that they complete, if they begin a new one, and
// whether what was said before has changed: then the whole text must be written anew.
func (g *GPUReadings) Add(at time.Time, levels []Pressure) (done *GPUReadingRow, anew bool) {
	if g.Step == 0 {
		g.Step, anew = firstStep, true
	}
	row := GPUReadingRow{Unix: g.slot(at.Unix()), GPUs: make([]GPUReading, len(g.Devices))}
	for i := range levels {
		k := slices.IndexFunc(g.Devices, func(d GPUReadingDevice) bool { return d.UUID == levels[i].UUID })
		if k < 0 && len(g.Devices) == maxDevices {
			continue
		}
		if k < 0 {
			k, anew = len(g.Devices), true
			g.Devices = append(g.Devices, GPUReadingDevice{levels[i].UUID, levels[i].Index, levels[i].Name, levels[i].Total})
			row.GPUs = append(row.GPUs, GPUReading{})
		}
		row.GPUs[k] = levels[i].reading()
	}
	if !slices.ContainsFunc(row.GPUs, func(one GPUReading) bool { return one != GPUReading{} }) {
		return nil, anew // nothing is read while nothing runs or waits
	}
	n := len(g.Rows)
	if n > 0 && g.Rows[n-1].Unix >= row.Unix { // also if the clock was set back
		g.Rows[n-1].merge(&row, false)
		return nil, anew
	}
	if n > 0 {
		last := g.Rows[n-1]
		done = &last
	}
	g.Rows = append(g.Rows, row)
	for len(g.Rows)*len(g.Devices) > maxReadings && len(g.Rows) > 1 {
		g.halve()
		done, anew = nil, true
	}
	return done, anew
}

// slot returns the begin of the row that a time is in.
func (g *GPUReadings) slot(unix int64) int64 {
	step := int64(g.Step / time.Second)
	return unix - unix%step
}

// halve doubles the step.
func (g *GPUReadings) halve() {
	g.Step *= 2
	rows := g.Rows[:0]
	for _, r := range g.Rows {
		r.Unix = g.slot(r.Unix)
		if n := len(rows); n > 0 && rows[n-1].Unix == r.Unix {
			rows[n-1].merge(&r, true)
		} else {
			rows = append(rows, r)
		}
	}
	g.Rows = rows
}

// merge adds what a later row says of the same step. Two rows of a shorter step weigh
// alike; of readings within the shortest, the last one stands for utilization.
func (r *GPUReadingRow) merge(o *GPUReadingRow, mean bool) {
	for i := range o.GPUs {
		if i == len(r.GPUs) {
			r.GPUs = append(r.GPUs, GPUReading{})
		}
		a, b := &r.GPUs[i], o.GPUs[i]
		if a.Used == nil || b.Used != nil && *b.Used > *a.Used {
			a.Used, a.Ours = b.Used, b.Ours // of one moment, so that the one is part of the other
		}
		switch {
		case b.Util == nil:
		case a.Util == nil || !mean:
			a.Util, a.Looks = b.Util, b.Looks
		default:
			n, m := max(1, a.Looks), max(1, b.Looks)
			v := (*a.Util*float64(n) + *b.Util*float64(m)) / float64(n+m)
			a.Util, a.Looks = &v, n+m
		}
		a.Jobs, a.Others = max(a.Jobs, b.Jobs), a.Others || b.Others
		if b.Code != "" {
			a.Code, a.User = b.Code, b.User
		}
	}
}

// A Pressure is the level of a device, and why the first waiting job cannot have it, or does
// not take it; "" if none waits.
type Pressure struct {
	gpu.Level
	Code gpu.Code
	User string
}

func (p *Pressure) reading() GPUReading {
	g := GPUReading{Jobs: p.Jobs, Others: p.Others, Code: p.Code, User: p.User}
	mib := func(b gpu.Bytes) *int {
		if b < 0 {
			return nil
		}
		n := int(b / gpu.MiB)
		return &n
	}
	g.Used, g.Ours = mib(p.Used), mib(p.Ours)
	if p.Util >= 0 {
		util := float64(p.Util)
		g.Util = &util
	}
	return g
}

// readingsHead is the first line of the text.
type readingsHead struct {
	Version int                `json:"version"`
	Step    float64            `json:"step_seconds"`
	Devices []GPUReadingDevice `json:"devices"`
}

// Text returns all of it but the last row, which is not complete unless over is set.
func (g *GPUReadings) Text(over bool) []byte {
	text, _ := json.Marshal(readingsHead{Version, g.Step.Seconds(), g.Devices})
	text = append(text, '\n')
	for i := range g.Rows {
		if over || i < len(g.Rows)-1 {
			text = append(text, g.Rows[i].Line()...)
		}
	}
	return text
}

// Line returns a row's line.
func (r *GPUReadingRow) Line() []byte {
	line, _ := json.Marshal(r)
	return append(line, '\n')
}

// ParseGPUReadings returns what a text says, as far as it can be read.
func ParseGPUReadings(text string) *GPUReadings {
	g, head := &GPUReadings{}, true
	for line := range strings.Lines(text) {
		if head {
			var h readingsHead
			if json.Unmarshal([]byte(line), &h) != nil || h.Version != Version || h.Step < firstStep.Seconds() || h.Step > 1e8 || len(h.Devices) > maxDevices {
				return g
			}
			g.Devices, g.Step, head = h.Devices, time.Duration(h.Step)*time.Second, false
			continue
		}
		var r GPUReadingRow
		if json.Unmarshal([]byte(line), &r) != nil || r.Unix <= 0 || len(r.GPUs) > len(g.Devices) || len(g.Rows) > maxReadings {
			continue
		}
		if r.Unix = g.slot(r.Unix); len(g.Rows) > 0 && g.Rows[len(g.Rows)-1].Unix >= r.Unix {
			continue
		}
		g.Rows = append(g.Rows, r)
	}
	return g
}
