package cli

import (
	"cmp"
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
	"gpurun/runner/batches"
	"gpurun/state/host"
)

// openProber opens the GPUs, real or simulated.
func (a *app) openProber(ctx context.Context, f *gpuFlags, log zerolog.Logger) (probe.Prober, error) {
	if f.Sim != "" {
		return openSim(f.Sim)
	}
	p, err := probe.Open(ctx, probe.Options{Library: f.NVML, Log: log, Now: host.Boottime})
	if err == nil {
		return p, nil
	}
	cannot := &batches.Failure{Code: batches.ExitUsage, Text: err.Error(), Hint: "to use simulated GPUs: gpurun --sim 4x24GiB FILE", Err: err}
	if m := (*probe.Missing)(nil); errors.As(err, &m) {
		cannot.Text, cannot.Hint = m.Text, m.Hint
	}
	return nil, cannot
}

// lookAtGPUs opens the GPUs for a command that starts nothing on them, and which calls answered
// once it has read them.
func (a *app) lookAtGPUs(f *gpuFlags, look func(ctx context.Context, p probe.Prober, answered func()) error) error {
	ctx, stop := a.untilSignal()
	defer stop()
	answered := a.unlessDriverSoon(f.Sim != "")
	defer answered()
	p, err := a.openProber(ctx, f, zerolog.Nop())
	if err != nil {
		return cmp.Or(context.Cause(ctx), err)
	}
	defer p.Close()
	return look(ctx, p, answered)
}

// simLimit bounds how long --sim waits for a driver to report whether there are GPUs.
const simLimit = 30 * time.Second

// checkNoGPUs refuses --sim on a machine with GPUs: the jobs are real, and would use
// GPUs that the simulation never looked at.
func (a *app) checkNoGPUs(ctx context.Context, f *gpuFlags, here simFlag) error {
	if f.Sim == "" || here.SimHere {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, simLimit)
	defer cancel()
	p, err := probe.Open(ctx, probe.Options{Library: f.NVML, Log: zerolog.Nop(), Now: host.Boottime})
	text, hint := "", "omit --sim to use them, or add --sim-here to let the jobs use them unchecked"
	switch {
	case err == nil:
		text = fmt.Sprintf("--sim on a machine with %s (%s): jobs run for real, and might use GPUs that others are using", count(len(p.Devices()), "GPU"), p.Version())
		p.Close()
	case ctx.Err() != nil:
		text = "--sim on a machine whose NVIDIA driver does not answer: jobs run for real, and might use its GPUs"
	default:
		return nil // no driver, or none that works
	}
	if os.Getenv("GPURUN_SIM") != "" {
		hint = "unset GPURUN_SIM to use them, or add --sim-here to let the jobs use them unchecked"
	}
	return &batches.Failure{Code: batches.ExitUsage, Text: text, Hint: hint}
}

func openSim(spec string) (*probe.Sim, error) {
	s, err := probe.OpenSim(spec, host.Boottime)
	if err != nil {
		return nil, &batches.Failure{Code: batches.ExitUsage, Text: err.Error(), Hint: "try --sim 4x24GiB, or give a YAML file that describes simulated GPUs", Err: err}
	}
	return s, nil
}

// openLimit bounds the driver's start, which takes seconds without persistence mode.
const openLimit = 2 * time.Minute

// inherited holds the variables in gpurun's own environment that select its GPUs.
type inherited struct {
	set     bool   // CUDA_VISIBLE_DEVICES is set
	visible string // its value
	pci     bool   // CUDA_DEVICE_ORDER=PCI_BUS_ID
}

// inheritedGPUs reads the environment, which does not apply to simulated GPUs.
func inheritedGPUs(sim bool) inherited {
	if sim {
		return inherited{}
	}
	v, ok := os.LookupEnv("CUDA_VISIBLE_DEVICES")
	return inherited{set: ok, visible: v, pci: os.Getenv("CUDA_DEVICE_ORDER") == "PCI_BUS_ID"}
}

// managed returns the devices that a run may use, as gpu.Rules.IDs: those of gpu_ids
// that the inherited variable leaves. Nil means all.
func (in inherited) managed(devs []gpu.Device, ids []string) ([]string, error) {
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

// devices reads the variable as CUDA does: the list ends at the first entry that is
// not a device.
func (in inherited) devices(devs []gpu.Device) (out []gpu.Device, err error) {
	mixed := slices.ContainsFunc(devs, func(d gpu.Device) bool { return !d.MIG && d.Name != devs[0].Name })
	for _, word := range strings.Split(in.visible, ",") {
		word = strings.TrimSpace(word)
		n, notIndex := strconv.Atoi(word)
		if notIndex == nil && mixed && !in.pci {
			return nil, &batches.Failure{Code: batches.ExitUsage,
				Text: fmt.Sprintf("CUDA_VISIBLE_DEVICES=%s has indices, but this machine has different GPU models: without CUDA_DEVICE_ORDER=PCI_BUS_ID these may not be the indices of NVML and nvidia-smi", in.visible),
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
