// Package probe reads the devices: through NVML in a child process, or from a simulation.
//
// A Prober lists the devices once and takes readings of them. A full reading includes processes and
// utilization; a quick one, for a hand-over, only memory. A value that cannot be read is unknown
// and does not affect others. If a device does not respond, its reading contains the reason; if
// none responds, the observation does. No reading exceeds its deadline, whatever the driver does.
//
// This package does not decide who may use a device; package gpu does.
package probe

import (
	"context"

	"gpurun/gpu"
)

// A Query defines what to read.
type Query struct {
	UUIDs     []gpu.UUID // devices to read; empty for all
	Processes bool       // take a full reading, not a quick one of memory only
}

// A Prober is a source of readings. It is not safe for concurrent use.
type Prober interface {
	// Devices returns the devices that Open found, in PCI order.
	Devices() []gpu.Device
	// Read takes a reading. It returns no later than when ctx ends or the prober's own deadline
	// passes, and reports failures in Observation.Err and Reading.Err.
	Read(ctx context.Context, q Query) gpu.Observation
	// Version returns the source: "NVML 13.3, driver 580.65" or "simulated".
	Version() string
	// Complete reports whether Devices lists all GPUs of the host, none of them in MIG mode. If so,
	// CUDA uses the same indices.
	Complete() bool
	// Private reports whether the devices belong to this run only. If so, they need no claims.
	Private() bool
	// Close releases the driver.
	Close() error
}

// Missing explains why NVML offers no GPU.
type Missing struct {
	Text string // what is missing
	Hint string // how to fix it
}

func (m *Missing) Error() string { return m.Text }

// simInstead ends every hint.
const simInstead = "; or simulate GPUs: --sim 4x24GiB"

func missingBuild() *Missing {
	return &Missing{Text: "this gpurun was built without NVML",
		Hint: "rebuild it with a C compiler and CGO_ENABLED=1" + simInstead}
}

// unread returns the reading of a device that does not answer.
func unread(why string) gpu.Reading { return gpu.Reading{Err: why, Total: -1, Free: -1, Used: -1} }
