package session

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/rs/zerolog"

	"gpurun/gpu"
	"gpurun/gpu/probe"
	"gpurun/jobspec"
	"gpurun/runner/batches"
	"gpurun/state"
	"gpurun/state/host"
)

// GPUs selects the source of the GPUs.
type GPUs struct {
	Sim     string // specification of simulated GPUs; "" for real ones
	Here    bool   // allow simulation on a machine with GPUs
	Library string // path of NVML, or "" for the default
}

// Open opens the GPUs, real or simulated.
func (f *GPUs) Open(ctx context.Context, log zerolog.Logger) (probe.Prober, error) {
	if f.Sim != "" {
		return OpenSim(f.Sim)
	}
	p, err := probe.Open(ctx, probe.Options{Library: f.Library, Log: log, Now: host.Boottime})
	if err == nil {
		return p, nil
	}
	cannot := &batches.Failure{Code: batches.ExitUsage, Text: err.Error(), Hint: "to use simulated GPUs: gpurun --sim 4x24GiB FILE", Err: err}
	if m := (*probe.Missing)(nil); errors.As(err, &m) {
		cannot.Text, cannot.Hint = m.Text, m.Hint
	}
	return nil, cannot
}

// simLimit bounds how long --sim waits for a driver to report its GPUs.
const simLimit = 30 * time.Second

// check refuses --sim on a machine with GPUs: the jobs are real and could use GPUs that the
// simulation ignores.
func (f *GPUs) check(ctx context.Context) error {
	if f.Sim == "" || f.Here {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, simLimit)
	defer cancel()
	p, err := probe.Open(ctx, probe.Options{Library: f.Library, Log: zerolog.Nop(), Now: host.Boottime})
	text, hint := "", "omit --sim to use the real GPUs, or add --sim-here to let jobs use them unchecked"
	switch {
	case err == nil:
		text = fmt.Sprintf("--sim on a machine with %s (%s): jobs run for real and might use GPUs that other users need", state.Count(len(p.Devices()), "GPU"), p.Version())
		p.Close()
	case ctx.Err() != nil:
		text = "--sim on a machine whose NVIDIA driver does not answer: jobs run for real and might use its GPUs"
	default:
		return nil // no working driver
	}
	if os.Getenv("GPURUN_SIM") != "" {
		hint = "unset GPURUN_SIM to use the real GPUs, or add --sim-here to let jobs use them unchecked"
	}
	return &batches.Failure{Code: batches.ExitUsage, Text: text, Hint: hint}
}

// OpenSim opens simulated GPUs.
func OpenSim(spec string) (*probe.Sim, error) {
	s, err := probe.OpenSim(spec, host.Boottime)
	if err != nil {
		return nil, &batches.Failure{Code: batches.ExitUsage, Text: err.Error(), Hint: "try --sim 4x24GiB, or pass a YAML file that describes simulated GPUs", Err: err}
	}
	return s, nil
}

// OpenLimit bounds how long the driver may take to start. Without persistence mode, it takes
// seconds.
const OpenLimit = 2 * time.Minute

// Rules adds the host's rules, and the devices that this run may use, to r.
func (h *HostRules) Rules(r gpu.Rules, devs []gpu.Device, sim bool) (gpu.Rules, error) {
	in := InheritedGPUs(sim)
	var err error
	r.IDs, err = in.Managed(devs, r.IDs)
	r.Host, r.UID, r.Run, r.Machine = h.HostRules, host.CurrentUID(), RunID(), probe.Machine()
	if h.blind {
		r.Others = gpu.OthersAvoid
	}
	return r, err
}

// Inherited holds the variables in gpurun's environment that select its GPUs.
type Inherited struct {
	set     bool   // CUDA_VISIBLE_DEVICES is set
	visible string // its value
	pci     bool   // CUDA_DEVICE_ORDER=PCI_BUS_ID
}

// InheritedGPUs reads the variables from the environment. They do not apply to simulated GPUs.
func InheritedGPUs(sim bool) Inherited {
	if sim {
		return Inherited{}
	}
	v, ok := os.LookupEnv("CUDA_VISIBLE_DEVICES")
	return Inherited{set: ok, visible: v, pci: os.Getenv("CUDA_DEVICE_ORDER") == "PCI_BUS_ID"}
}

// Managed returns the devices that a run may use, in the form of gpu.Rules.IDs: those in gpu_ids
// that the inherited variable also allows. Nil means all devices.
func (in Inherited) Managed(devs []gpu.Device, ids []string) ([]string, error) {
	allowed, err := gpu.Select(devs, ids)
	if err != nil {
		return nil, &batches.Failure{Code: batches.ExitUsage, Text: "gpu_ids: " + err.Error()}
	}
	if !in.set {
		return ids, nil
	}
	visible, err := in.devices(devs)
	if err != nil {
		return nil, err
	}
	var out []string
	for _, d := range visible {
		if slices.ContainsFunc(allowed, func(a gpu.Device) bool { return a.UUID == d.UUID }) {
			out = append(out, string(d.UUID))
		}
	}
	if len(out) == 0 {
		text := fmt.Sprintf("CUDA_VISIBLE_DEVICES=%q leaves no GPU", in.visible)
		if len(ids) > 0 {
			text += " of gpu_ids " + strings.Join(ids, ",")
		}
		return nil, &batches.Failure{Code: batches.ExitUsage, Text: text, Hint: "unset CUDA_VISIBLE_DEVICES to use all GPUs"}
	}
	return out, nil
}

// devices parses CUDA_VISIBLE_DEVICES as CUDA does: the list ends at the first entry that is not a
// device.
func (in Inherited) devices(devs []gpu.Device) (out []gpu.Device, err error) {
	mixed := slices.ContainsFunc(devs, func(d gpu.Device) bool { return !d.MIG && d.Name != devs[0].Name })
	for _, word := range strings.Split(in.visible, ",") {
		word = strings.TrimSpace(word)
		n, notIndex := strconv.Atoi(word)
		if notIndex == nil && mixed && !in.pci {
			return nil, &batches.Failure{Code: batches.ExitUsage,
				Text: fmt.Sprintf("CUDA_VISIBLE_DEVICES=%s has indices, but the GPUs of this machine are of different models: without CUDA_DEVICE_ORDER=PCI_BUS_ID, CUDA may not number them like nvidia-smi", in.visible),
				Hint: "use UUIDs (gpurun gpus --json lists them), or set CUDA_DEVICE_ORDER=PCI_BUS_ID"}
		}
		i := slices.IndexFunc(devs, func(d gpu.Device) bool {
			if notIndex == nil {
				return d.Index == n && !d.MIG
			}
			return word != "" && strings.HasPrefix(string(d.UUID), word)
		})
		if i < 0 {
			break
		}
		out = append(out, devs[i])
	}
	return out, nil
}

// WantsGPU reports whether any job selected by runs needs a GPU.
func WantsGPU(b *jobspec.Batch, runs func(id int) bool) bool {
	return slices.ContainsFunc(b.Jobs, func(j jobspec.Job) bool { return j.Spec.Request.Min > 0 && runs(j.ID) })
}

// PoolFor returns a pool of the devices that a batch may use. runs selects the jobs to check, and
// the problems list those that could never run on these devices.
func PoolFor(b *jobspec.Batch, p probe.Prober, h HostRules, sim, atOnce bool, runs func(id int) bool) (*gpu.Pool, []jobspec.Problem, error) {
	rules, err := RulesOf(b.Settings, p.Devices(), h, sim)
	if err != nil {
		return nil, nil, err
	}
	rules.AtOnce = atOnce
	pool := gpu.NewPool(p.Devices(), rules)
	b.FitDefaults(pool.Devices())
	return pool, b.CheckDevices(pool, runs), nil
}

// RulesOf returns the GPU rules from a batch's settings and the host.
func RulesOf(s jobspec.Settings, devs []gpu.Device, h HostRules, sim bool) (gpu.Rules, error) {
	return h.Rules(gpu.Rules{
		IDs: s.GPUIDs, Reserve: s.Reserve, MinGPUs: s.MinGPUs, MaxGPUs: s.MaxGPUs, Others: s.Others, Pick: s.Pick, Poll: s.Poll, Background: s.Background,
	}, devs, sim)
}

// Endless returns a warning if the host limits the time of jobs without a timeout, and runs selects
// such a job that needs a GPU. Otherwise, it returns "".
func (h *HostRules) Endless(b *jobspec.Batch, runs func(id int) bool) string {
	limit := h.TimeLimit()
	if limit == "" || !slices.ContainsFunc(b.Jobs, func(j jobspec.Job) bool { return j.Spec.Timeout == 0 && j.Spec.Request.Min > 0 && runs(j.ID) }) {
		return ""
	}
	return "time limit for jobs without a timeout: " + limit
}
