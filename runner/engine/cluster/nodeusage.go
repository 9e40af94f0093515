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
	"gpurun/state/host"
)

// A nodeUsage holds the outer process's readings of its task's GPUs.
type nodeUsage struct {
	Peaks    []gpu.Peak     `json:"peaks,omitempty"` // one for each GPU, in the order of the grant
	Readings int            `json:"readings,omitempty"`
	Away     []strayProcess `json:"away,omitempty"` // processes on the node's other GPUs in the last reading
}

// A strayProcess is a process on a GPU outside the task's grant.
type strayProcess struct {
	GPU      string `json:"gpu"` // its number and UUID
	PID      int    `json:"pid"`
	Command  string `json:"command,omitempty"`
	Doubtful bool   `json:"doubtful,omitempty"`
}

// Pauses between readings grow from firstReading to lastReading.
const (
	firstReading = time.Second
	lastReading  = 5 * time.Second
)

// strayPauses are the pauses before readings for a task without GPUs, in case it uses one by
// mistake; the last is repeated.
var strayPauses = []time.Duration{15 * time.Second, 45 * time.Second, 10 * time.Minute}

// checkLimit is how long a task waits for the first reading, which shows whether its GPUs have
// enough memory. The task starts anyway if the driver does not answer.
const checkLimit = 30 * time.Second

// measure takes readings of the GPUs of this process's task, and reports them to the keeper. The
// keeper cannot take readings itself, because it treats all its children as the job's.
func (n *node) measure(submission string, to io.Writer) {
	var g nodeUsage
	tell := func() { report{Usage: &g}.send(to) }
	ids, uuids := n.devices(os.Environ())
	for _, kv := range sharedEnv(submission) { // these variables may locate the driver's library or nvidia-smi
		if name, value, _ := strings.Cut(kv, "="); !n.sets(kv) {
			_ = os.Setenv(name, value)
		}
	}
	if len(ids)+len(uuids) == 0 {
		for i := 0; ; i++ {
			time.Sleep(strayPauses[min(i, len(strayPauses)-1)])
			if !g.readOnce() {
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
			g.add(own, others)
		}
		tell()
		time.Sleep(pause)
	}
}

// readOnce takes one reading for a task without GPUs. It returns false if the node has no GPUs.
func (g *nodeUsage) readOnce() bool {
	meter, err := probe.OpenMeter(context.Background(), os.Getenv("GPURUN_NVML"))
	if err != nil {
		return false
	}
	defer meter.Close()
	if seen, err := meter.Read(context.Background()); err == nil {
		g.add(nil, seen)
	}
	return true
}

// maxStrays bounds the stray processes in a report.
const maxStrays = 16

// add adds a reading of the task's own GPUs, and of the node's other GPUs.
func (g *nodeUsage) add(own, others []probe.Metered) {
	g.Away = nil
	for _, m := range others {
		for _, p := range m.Processes {
			if len(g.Away) < maxStrays && procs.UniID(p.PID) != "" { // a process of this user, perhaps of this task
				g.Away = append(g.Away, strayProcess{fmt.Sprintf("%d (%s)", m.Index, m.UUID), p.PID, p.Command, p.Doubtful})
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

// apart separates the readings of a task's GPUs from those of other GPUs: by UUID if the cluster
// reports UUIDs, or else by the node's numbers. If no others are visible, all are the task's. If a
// GPU of the task cannot be identified, any of the others may be it, so apart returns no others.
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

// stray describes a process of an attempt on a GPU outside its grant. sure is false if the cluster
// and the driver may number the node's GPUs differently.
func (g nodeUsage) stray(l *engine.Launch, t *task) (text string, sure bool) {
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
		text = fmt.Sprintf("process %d%s uses GPU %s of %s, but the job was assigned %s; remove the pin from the script (CUDA_VISIBLE_DEVICES, cuda:N, --gpu N), or pass {gpu} to it",
			a.PID, command, a.GPU, t.Host, given)
		if sure = !a.Doubtful && (len(t.UUIDs) > 0 || l.Request == nil || l.Request.GPUs == 0); sure {
			return text, true
		}
	}
	return text, false
}

// smallestMemory returns the memory of the smallest GPU; 0 if unknown.
func (g nodeUsage) smallestMemory() (least gpu.Bytes) {
	for _, p := range g.Peaks {
		if p.Total > 0 && (least == 0 || p.Total < least) {
			least = p.Total
		}
	}
	return least
}

// packEnv returns the content of envFile, from which sharedEnv reads the environment.
func packEnv(env []string) ([]byte, error) {
	env = slices.Clone(env)
	for i := range env {
		env[i] = host.Legible(env[i])
	}
	return json.Marshal(env)
}

// sharedEnv returns the environment that gpurun was started in.
func sharedEnv(submission string) (env []string) {
	_ = json.Unmarshal([]byte(readText(filepath.Join(submission, envFile))), &env)
	for i := range env {
		env[i] = host.Exact(env[i])
	}
	return env
}
