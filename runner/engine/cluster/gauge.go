package cluster

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"gpurun/gpu"
	"gpurun/gpu/probe"
	"gpurun/runner/engine"
	"gpurun/runner/engine/procs"
)

// A gauge is what the outer process has seen of the GPUs of its task.
type gauge struct {
	Peaks    []gpu.Peak `json:"peaks,omitempty"` // one for each GPU, in the order of the grant
	Readings int        `json:"readings,omitempty"`
	Away     []away     `json:"away,omitempty"` // who is on the node's other GPUs, in the last reading
}

// away is a process on a GPU that the task was not given.
type away struct {
	GPU      string `json:"gpu"` // its number and UUID
	PID      int    `json:"pid"`
	Command  string `json:"command,omitempty"`
	Doubtful bool   `json:"doubtful,omitempty"`
}

// The pauses between readings grow from the first to the last.
const (
	firstReading = time.Second
	lastReading  = 5 * time.Second
)

// glances are the pauses before readings for a task without GPUs, which may only use one by
// mistake; the last is repeated.
var glances = []time.Duration{15 * time.Second, 45 * time.Second, 10 * time.Minute}

// checkLimit is how long a task waits for the first reading, which says whether its GPUs have the
// memory that it asks for. A driver that does not answer says nothing of them.
const checkLimit = 30 * time.Second

// measure reads the GPUs of the task that this process is for, and tells its keeper of them. The
// keeper cannot do it itself: it treats every child of its own as the job's.
func (n *node) measure(submission string, to io.Writer) {
	var g gauge
	tell := func() {
		b, _ := json.Marshal(g)
		_, _ = to.Write(append(append([]byte{toldGauge}, b...), '\n'))
	}
	ids, uuids := n.devices(os.Environ())
	for _, kv := range sharedEnv(submission) { // it says where the driver's library or nvidia-smi is
		if name, value, _ := strings.Cut(kv, "="); !n.sets(kv) {
			_ = os.Setenv(name, value)
		}
	}
	if len(ids)+len(uuids) == 0 {
		for i := 0; ; i++ {
			time.Sleep(glances[min(i, len(glances)-1)])
			if !g.glance() {
				return
			}
			tell()
		}
	}
	meter, err := probe.OpenMeter(context.Background(), os.Getenv("GPURUN_NVML"))
	if err != nil {
		tell()
		return
	}
	for pause := firstReading; ; pause = min(2*pause, lastReading) {
		if seen, err := meter.Read(context.Background()); err == nil {
			own, others := apart(seen, ids, uuids)
			g.see(own, others)
		}
		tell()
		time.Sleep(pause)
	}
}

// glance takes one reading for a task without GPUs. It returns false if there are none to read.
func (g *gauge) glance() bool {
	meter, err := probe.OpenMeter(context.Background(), os.Getenv("GPURUN_NVML"))
	if err != nil {
		return false
	}
	defer meter.Close()
	if seen, err := meter.Read(context.Background()); err == nil {
		g.see(nil, seen)
	}
	return true
}

// mostAway is of how many processes on other GPUs the keeper is told.
const mostAway = 16

// see takes note of a reading of the task's own GPUs, and of others.
func (g *gauge) see(own, others []probe.Metered) {
	g.Away = nil
	for _, m := range others {
		for _, p := range m.Processes {
			if len(g.Away) < mostAway && procs.UniID(p.PID) != "" { // of this user's, and perhaps of this task
				g.Away = append(g.Away, away{fmt.Sprintf("%d (%s)", m.Index, m.UUID), p.PID, p.Command, p.Doubtful})
			}
		}
	}
	for len(g.Peaks) < len(own) {
		g.Peaks = append(g.Peaks, gpu.Peak{})
	}
	used := false
	for i, m := range own {
		g.Peaks[i].Total, g.Peaks[i].Used = max(g.Peaks[i].Total, m.Total), max(g.Peaks[i].Used, m.Used)
		used = used || m.Used > 0
	}
	if used {
		g.Readings++
	}
}

// apart returns the readings of a task's GPUs: by UUID if the cluster says those, all if no others
// can be seen, else by the node's numbers. The rest are others, unless one of its own cannot be
// told among them: it may be there under another name.
func apart(seen []probe.Metered, ids []int, uuids []gpu.UUID) (own, others []probe.Metered) {
	if len(uuids) == 0 && len(seen) == len(ids) {
		return seen, nil
	}
	others = slices.Clone(seen)
	for i := range max(len(uuids), len(ids)) {
		at := slices.IndexFunc(others, func(m probe.Metered) bool {
			return i < len(uuids) && m.UUID == uuids[i] || len(uuids) == 0 && m.Index == ids[i]
		})
		if at >= 0 {
			own, others = append(own, others[at]), slices.Delete(others, at, at+1)
		}
	}
	if len(own) < max(len(uuids), len(ids)) {
		return own, nil
	}
	return own, others
}

// astray returns what process of an attempt is on a GPU that it was not given. Sure is false if the
// node's numbers, which the cluster gave, may be other GPUs than those that the driver numbers so.
func (g gauge) astray(l *engine.Launch, t *task) (text string, sure bool) {
	for _, a := range g.Away {
		if procs.UniID(a.PID) != l.UniID {
			continue
		}
		command, given := "", "no GPU"
		if a.Command != "" {
			command = " (" + a.Command + ")"
		}
		if len(t.GPUs) > 0 {
			given = "GPU " + strings.Trim(strings.ReplaceAll(fmt.Sprint(t.GPUs), " ", ","), "[]")
		}
		text = fmt.Sprintf("process %d%s is on GPU %s of %s, but the job was given %s; remove the pin from the script (CUDA_VISIBLE_DEVICES, cuda:N, --gpu N), or pass {gpu} to it",
			a.PID, command, a.GPU, t.Host, given)
		if sure = !a.Doubtful && (len(t.UUIDs) > 0 || l.Request == nil || l.Request.GPUs == 0); sure {
			return text, true
		}
	}
	return text, false
}

// least returns the memory of the smallest GPU; 0 if unknown.
func (g gauge) least() (least gpu.Bytes) {
	for _, p := range g.Peaks {
		if p.Total > 0 && (least == 0 || p.Total < least) {
			least = p.Total
		}
	}
	return least
}

// sharedEnv returns the environment that gpurun was started in.
func sharedEnv(submission string) (env []string) {
	_ = json.Unmarshal([]byte(readText(filepath.Join(submission, envFile))), &env)
	return env
}
