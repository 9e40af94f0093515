package cluster

import (
	"context"
	"encoding/json"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"gpurun/gpu"
	"gpurun/gpu/probe"
)

// A gauge is what the outer process has seen of the GPUs of its task.
type gauge struct {
	Peaks    []gpu.Peak `json:"peaks,omitempty"` // one for each GPU, in the order of the grant
	Readings int        `json:"readings,omitempty"`
}

// The pauses between readings grow from the first to the last.
const (
	firstReading = time.Second
	lastReading  = 5 * time.Second
)

// checkLimit is how long a task waits for the first reading, which says whether its GPUs have the
// memory that it asks for. A driver that does not answer says nothing of them.
const checkLimit = 30 * time.Second

// measure reads the GPUs of the task that this process is for, and tells its keeper of them. The
// keeper cannot do it itself: it treats every child of its own as the job's.
func measure(submission string, env []string, to io.Writer) {
	var g gauge
	tell := func() {
		b, _ := json.Marshal(g)
		_, _ = to.Write(append(append([]byte{toldGauge}, b...), '\n'))
	}
	ids, uuids := devices(env)
	for _, kv := range sharedEnv(submission) { // it says where the driver's library or nvidia-smi is
		if name, value, _ := strings.Cut(kv, "="); !nodes(kv) {
			_ = os.Setenv(name, value)
		}
	}
	meter, err := probe.OpenMeter(context.Background(), os.Getenv("GPURUN_NVML"))
	if err != nil {
		tell()
		return
	}
	for pause := firstReading; ; pause = min(2*pause, lastReading) {
		if seen, err := meter.Read(context.Background()); err == nil {
			g.see(mine(seen, ids, uuids))
		}
		tell()
		time.Sleep(pause)
	}
}

// see takes note of a reading.
func (g *gauge) see(seen []probe.Metered) {
	for len(g.Peaks) < len(seen) {
		g.Peaks = append(g.Peaks, gpu.Peak{})
	}
	used := false
	for i, m := range seen {
		g.Peaks[i].Total, g.Peaks[i].Used = max(g.Peaks[i].Total, m.Total), max(g.Peaks[i].Used, m.Used)
		used = used || m.Used > 0
	}
	if used {
		g.Readings++
	}
}

// mine returns the readings of a task's GPUs: by UUID if the cluster says those, all if no others
// can be seen, else by the node's numbers.
func mine(seen []probe.Metered, ids []int, uuids []gpu.UUID) (own []probe.Metered) {
	if len(uuids) == 0 && len(seen) == len(ids) {
		return seen
	}
	for i := range max(len(uuids), len(ids)) {
		at := slices.IndexFunc(seen, func(m probe.Metered) bool {
			return i < len(uuids) && m.UUID == uuids[i] || len(uuids) == 0 && m.Index == ids[i]
		})
		if at >= 0 {
			own = append(own, seen[at])
		}
	}
	return own
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
