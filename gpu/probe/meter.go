package probe

import (
	"context"
	"encoding/csv"
	"errors"
	"os/exec"
	"strconv"
	"strings"
	"time"

	"github.com/rs/zerolog"

	"gpurun/gpu"
)

// A Metered describes the memory and the processes of a GPU.
type Metered struct {
	Index int
	UUID  gpu.UUID
	Total gpu.Bytes // -1 if unknown
	Used  gpu.Bytes // used by processes; -1 if unknown

	Processes []gpu.Process
}

// A Meter reads the memory of all visible GPUs. It is for occasional readings on cluster nodes whose
// GPUs have no other users. It uses NVML, or nvidia-smi if this program cannot load NVML.
type Meter struct {
	prober Prober // nil for nvidia-smi
}

// OpenMeter opens a Meter; library is as in Options.
func OpenMeter(ctx context.Context, library string) (*Meter, error) {
	p, err := Open(ctx, Options{Library: library, Log: zerolog.Nop()})
	if err == nil {
		return &Meter{p}, nil
	}
	if withNVML {
		return nil, err
	}
	m := &Meter{}
	_, err = m.Read(ctx)
	return m, err
}

// Close releases the driver.
func (m *Meter) Close() {
	if m.prober != nil {
		_ = m.prober.Close()
	}
}

// Read takes a reading.
func (m *Meter) Read(ctx context.Context) ([]Metered, error) {
	if m.prober == nil {
		return readSMI(ctx)
	}
	seen := m.prober.Read(ctx, Query{Processes: true})
	if seen.Err != "" {
		return nil, errors.New(seen.Err)
	}
	var all []Metered
	for i, d := range m.prober.Devices() {
		if i >= len(seen.Readings) || seen.Readings[i].Err != "" {
			continue
		}
		r := &seen.Readings[i]
		g := Metered{Index: d.Index, UUID: r.UUID, Total: r.Total, Used: -1}
		if r.Listed {
			g.Used = 0
			for _, p := range r.Processes {
				g.add(p)
			}
		}
		all = append(all, g)
	}
	return all, nil
}

func (g *Metered) add(p gpu.Process) {
	g.Processes = append(g.Processes, p)
	if p.Memory < 0 || g.Used < 0 {
		g.Used = -1
	} else {
		g.Used += p.Memory
	}
}

const smiLimit = 30 * time.Second

func readSMI(ctx context.Context) ([]Metered, error) {
	ctx, cancel := context.WithTimeout(ctx, smiLimit)
	defer cancel()
	var texts []string
	for _, query := range []string{"--query-gpu=index,uuid,memory.total", "--query-compute-apps=gpu_uuid,used_memory,pid"} {
		cmd := exec.CommandContext(ctx, "nvidia-smi", query, "--format=csv,noheader,nounits")
		cmd.WaitDelay = time.Second
		out, err := cmd.Output()
		if err != nil {
			return nil, err
		}
		texts = append(texts, string(out))
	}
	all := parseSMI(texts[0], texts[1])
	if len(all) == 0 {
		return nil, errors.New("nvidia-smi lists no GPU")
	}
	return all, nil
}

// parseSMI parses "0, GPU-…, 40960" for each GPU and "GPU-…, 1024, 4711" for each process.
func parseSMI(gpus, apps string) (all []Metered) {
	for _, f := range csvLines(gpus, 3) {
		if index, err := strconv.Atoi(f[0]); err == nil && index >= 0 && f[1] != "" {
			all = append(all, Metered{Index: index, UUID: gpu.UUID(f[1]), Total: mebibytes(f[2])})
		}
	}
	for _, f := range csvLines(apps, 3) {
		pid, _ := strconv.Atoi(f[2])
		for i := range all {
			if all[i].UUID == gpu.UUID(f[0]) {
				all[i].add(gpu.Process{PID: max(pid, 0), UID: -1, Memory: mebibytes(f[1])})
			}
		}
	}
	return all
}

// csvLines returns the fields of every line that has n of them.
func csvLines(text string, n int) (lines [][]string) {
	for line := range strings.Lines(text) {
		in := csv.NewReader(strings.NewReader(line))
		in.TrimLeadingSpace, in.LazyQuotes = true, true
		if f, err := in.Read(); err == nil && len(f) == n {
			lines = append(lines, f)
		}
	}
	return lines
}

// mebibytes parses a number of MiB. It returns -1 for "[N/A]" and the like.
func mebibytes(text string) gpu.Bytes {
	n, err := strconv.ParseInt(strings.TrimSpace(text), 10, 40)
	if err != nil || n < 0 {
		return -1
	}
	return gpu.Bytes(n) * gpu.MiB
}
