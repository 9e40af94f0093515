package probe

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"time"

	"gopkg.in/yaml.v3"

	"gpurun/gpu"
	"gpurun/state/host"
)

// A simulation is the content of a simulation file, which docs/reference/simulation.md describes.
// Times count from the start of the run.
type simulation struct {
	GPUs []simGPU
	Jobs struct {
		Memory size   // memory that a job uses on each of its GPUs; 0 for its grant
		Take   length // time in which a job allocates this memory, at a steady rate
		Linger length // how long this memory stays in use after the job ends
		Util   int    // percent, while a job runs
	}
	Latency struct {
		Processes length // how long a reading takes for each device whose processes are listed
	}
	Outages []simFault // when nothing can be read
}

type simGPU struct {
	Memory      size
	Count       *int // number of GPUs like this one; nil for 1
	Name        string
	ComputeMode string   `yaml:"compute_mode"`
	NVLink      string   // connected to all GPUs with the same value
	Switch      string   // on one PCIe switch with all GPUs with the same value
	NUMA        string   // number of the NUMA node
	Cores       string   // of that node
	Blind       []string // what cannot be read: util, memory, processes
	Load        []simLoad
	Fails       []simFault // when it does not answer
}

// A span is a time range that excludes To. Without To, it never ends.
type span struct {
	From length
	To   *length
}

func (s *span) has(t time.Duration) bool {
	return t >= time.Duration(s.From) && (s.To == nil || t < time.Duration(*s.To))
}

type simLoad struct {
	span    `yaml:",inline"`
	User    string // "me" for this user; "?" for unknown
	Command string
	PID     int
	Memory  size
	Util    int // percent
}

type simFault struct {
	span  `yaml:",inline"`
	Error string
}

// size and length are scalars with units.
type (
	size   gpu.Bytes
	length time.Duration
)

// scalar parses n into v.
func scalar[T any](n *yaml.Node, v *T, parse func(string) (T, error)) (err error) {
	if *v, err = parse(n.Value); err != nil {
		return fmt.Errorf("line %d: %w", n.Line, err)
	}
	return nil
}

func (s *size) UnmarshalYAML(n *yaml.Node) error { return scalar(n, (*gpu.Bytes)(s), gpu.ParseBytes) }

func (l *length) UnmarshalYAML(n *yaml.Node) error {
	return scalar(n, (*time.Duration)(l), func(text string) (time.Duration, error) {
		d, err := time.ParseDuration(text)
		if err != nil || d < 0 {
			return 0, fmt.Errorf("invalid duration %q (try 90s or 10m)", text)
		}
		return d, nil
	})
}

// maxSimGPUs bounds the number of GPUs, in case of a typo.
const maxSimGPUs = 1024

var inline = regexp.MustCompile(`^(?:(\d+)x)?([0-9.]+\s*[A-Za-z]+)(?::(.+))?$`)

// parseInline parses "4x24GiB", "2x24GiB,1x80GiB:A100" or "24GiB". looks reports whether spec looks
// like an inline spec.
func parseInline(spec string) (sim simulation, looks bool, err error) {
	for _, part := range strings.Split(spec, ",") {
		m := inline.FindStringSubmatch(strings.TrimSpace(part))
		if m == nil {
			return sim, false, nil
		}
		g := simGPU{Name: m[3]}
		b, err := gpu.ParseBytes(m[2])
		if err != nil {
			return sim, true, fmt.Errorf("simulated GPUs %q: %w", part, err)
		}
		g.Memory = size(b)
		if m[1] != "" {
			n, err := strconv.Atoi(m[1])
			if err != nil {
				n = maxSimGPUs + 1
			}
			g.Count = &n
		}
		sim.GPUs = append(sim.GPUs, g)
	}
	return sim, true, nil
}

// loadSim loads a spec and returns the seed for its devices' UUIDs. Inline GPUs are private to
// their run.
func loadSim(spec string) (sim simulation, seed string, private bool, err error) {
	sim, private, err = parseInline(spec)
	seed = spec
	if !private {
		sim, seed, err = readSim(spec)
	}
	if err == nil {
		err = sim.check(spec)
	}
	return sim, seed, private, err
}

// unknownField matches yaml.v3's error for a key that a struct lacks.
var unknownField = regexp.MustCompile(`field (\S+) not found in type [^\n]+`)

// readSim reads a simulation file. Its devices are the same whichever link leads to the file.
func readSim(path string) (sim simulation, real string, err error) {
	if info, err := os.Stat(path); err == nil && !info.Mode().IsRegular() {
		return sim, "", fmt.Errorf("simulated GPUs: %s: %w", path, host.ErrIrregular)
	}
	content, err := os.ReadFile(path)
	if errors.Is(err, os.ErrNotExist) {
		return sim, "", fmt.Errorf("simulated GPUs: %q is not a file or a spec like 4x24GiB", path)
	}
	if err == nil {
		real, err = filepath.EvalSymlinks(path)
	}
	if err == nil {
		real, err = filepath.Abs(real)
	}
	if err != nil {
		return sim, "", err
	}
	dec := yaml.NewDecoder(bytes.NewReader(content))
	dec.KnownFields(true)
	if err := dec.Decode(&sim); err != nil && err != io.EOF {
		return sim, "", fmt.Errorf("%s: %s", path, unknownField.ReplaceAllString(err.Error(), `unknown key "$1"`))
	}
	return sim, real, nil
}

// check finds errors that the decoder accepts.
func (sim *simulation) check(spec string) error {
	total := 0
	for i := range sim.GPUs {
		g := &sim.GPUs[i]
		if g.Count == nil {
			g.Count = new(1)
		}
		total += min(*g.Count, maxSimGPUs+1)
		if err := g.check(); err != nil {
			return fmt.Errorf("%s: gpus[%d]: %w", spec, i, err)
		}
	}
	switch {
	case total == 0:
		return fmt.Errorf("%s: no gpus", spec)
	case total > maxSimGPUs:
		return fmt.Errorf("%s: %d GPUs are too many to simulate (at most %d)", spec, total, maxSimGPUs)
	case sim.Jobs.Util < 0 || sim.Jobs.Util > 100:
		return fmt.Errorf("%s: jobs: invalid util %d (0 to 100)", spec, sim.Jobs.Util)
	}
	return nil
}

func (g *simGPU) check() error {
	if g.Memory <= 0 {
		return errors.New("no memory given (try memory: 24GiB)")
	}
	if *g.Count < 1 {
		return fmt.Errorf("invalid count %d (at least 1)", *g.Count)
	}
	if _, ok := computeModes[g.ComputeMode]; !ok {
		return fmt.Errorf("compute_mode: %q is not one of default, exclusive, prohibited", g.ComputeMode)
	}
	if g.Cores != "" {
		if _, err := host.ParseCores(g.Cores); err != nil {
			return fmt.Errorf("cores: %w", err)
		}
		if g.NUMA == "" {
			return errors.New("cores needs numa, the NUMA node of these cores")
		}
	}
	for _, b := range g.Blind {
		if b != "util" && b != "memory" && b != "processes" {
			return fmt.Errorf("blind: %q is not one of util, memory, processes", b)
		}
	}
	for _, l := range g.Load {
		if l.Util < 0 || l.Util > 100 {
			return fmt.Errorf("load: invalid util %d (0 to 100)", l.Util)
		}
	}
	return nil
}

var computeModes = map[string]gpu.ComputeMode{
	"": gpu.ComputeDefault, "default": gpu.ComputeDefault,
	"exclusive": gpu.ComputeExclusive, "prohibited": gpu.ComputeProhibited,
}
