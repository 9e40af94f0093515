package state

import (
	"encoding/json"
	"slices"
	"strings"
	"time"

	"gpurun/gpu"
)

// GPUReadings records how full and how busy each GPU was during a batch, and what kept jobs off it.
// Its size is bounded: when it is full, each pair of rows is merged into one.
//
// The text form consists of one JSON line for the devices and the step, and one for each row. The
// last line of a file may be cut off.
type GPUReadings struct {
	Devices []GPUReadingDevice
	Step    time.Duration   // the time that a row covers
	Rows    []GPUReadingRow // oldest first; gaps where no run was alive
}

// A GPUReadingDevice is a device that has readings.
type GPUReadingDevice struct {
	UUID  gpu.UUID  `json:"uuid"`
	Index int       `json:"index"`
	Name  string    `json:"name,omitempty"`
	Total gpu.Bytes `json:"memory_total_bytes,omitempty"`
}

// A GPUReadingRow holds the readings of all devices in one step.
type GPUReadingRow struct {
	Unix int64        `json:"time"` // start of the step, a multiple of Step
	GPUs []GPUReading `json:"gpus"` // in the order of Devices; shorter if devices were added later
}

// A GPUReading is the reading of one device. Memory is from the moment of highest use in the step,
// in MiB to keep rows short; utilization is the mean. Unknown values are null.
type GPUReading struct {
	Used   *int     `json:"used_mib,omitempty"`
	Ours   *int     `json:"ours_mib,omitempty"` // the part used by the batch's jobs
	Util   *float64 `json:"util,omitempty"`     // percent
	Jobs   int      `json:"jobs,omitempty"`     // the batch's jobs on the device
	Others bool     `json:"others,omitempty"`   // whether anything besides the batch's jobs used it
	Code   gpu.Code `json:"code,omitempty"`     // why the first waiting job could not use it
	User   string   `json:"user,omitempty"`     // who kept that job off it
	Looks  int      `json:"n,omitempty"`        // number of readings at the shortest step that are averaged in Util, if more than one
	Idle   bool     `json:"-"`                  // set by Of: a job held it for a long time and hardly used it
}

// These bound GPUReadings: the initial step, and the maximum number of readings, about 70 bytes
// each.
const (
	firstStep   = 5 * time.Second
	maxReadings = 12000
)

// maxDevices is the maximum number of devices in a file.
const maxDevices = 256

// Add adds readings. It returns the row that they complete, if any, and whether earlier rows, the
// devices or the step have changed. If they have, the whole text must be rewritten.
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
		return nil, anew // there are no readings while nothing runs or waits
	}
	n := len(g.Rows)
	if n > 0 && g.Rows[n-1].Unix >= row.Unix { // true also after the clock was set back
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

// Until returns until when there are readings from a time on without a gap, or that time.
func (g *GPUReadings) Until(since time.Time) time.Time {
	const pause = time.Minute // of a busy run
	end := since
	for _, r := range g.Rows {
		at := time.Unix(r.Unix, 0)
		if at.After(end.Add(g.Step + pause)) {
			break
		}
		if to := at.Add(g.Step); to.After(end) {
			end = to
		}
	}
	return end
}

// slot returns the start of the step that contains a time.
func (g *GPUReadings) slot(unix int64) int64 {
	step := int64(g.Step / time.Second)
	return unix - unix%step
}

// halve doubles the step, which halves the number of rows.
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

// merge merges a later row of the same step into r. If mean is set, the utilization becomes the
// mean of both rows, weighted by their numbers of readings; otherwise, it becomes that of the later
// row.
func (r *GPUReadingRow) merge(o *GPUReadingRow, mean bool) {
	for i := range o.GPUs {
		if i == len(r.GPUs) {
			r.GPUs = append(r.GPUs, GPUReading{})
		}
		a, b := &r.GPUs[i], o.GPUs[i]
		if a.Used == nil || b.Used != nil && *b.Used > *a.Used {
			a.Used, a.Ours = b.Used, b.Ours // both from one moment, so Ours is part of Used
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

// A Pressure holds the level of a device, and why the first waiting job cannot or does not use it.
// Code is "" if no job waits.
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

// readingsHead is the first line of the text form.
type readingsHead struct {
	Version int                `json:"version"`
	Step    float64            `json:"step_seconds"`
	Devices []GPUReadingDevice `json:"devices"`
}

// Text returns the text form. The last row is incomplete, so it is left out unless over is set.
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

// Line returns the row as a line of the text form.
func (r *GPUReadingRow) Line() []byte {
	line, _ := json.Marshal(r)
	return append(line, '\n')
}

// ParseGPUReadings parses the text form, and skips rows that it cannot read.
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
