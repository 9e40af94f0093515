// Package probe reads the devices: through NVML, in a child process, or from a
// simulation.
//
// A Prober lists the devices once and takes readings of them. A full reading
// includes processes and utilization; a quick one, for a hand-over, only memory.
// A value that cannot be read is unknown and affects no other. If a device does
// not answer, its reading says why; if none does, the snapshot says why. No
// reading exceeds its deadline, whatever the driver does.
//
// This package decides nothing about who may use what; package gpu does.
package probe

import (
	"context"

	"gpurun/gpu"
)

// A Query says what to read.
type Query struct {
	UUIDs     []gpu.UUID // devices to read; empty for all
	Processes bool       // take a full reading, not a quick one of memory only
}

// A Prober is a source of readings. Only one goroutine at a time may call its
// methods.
type Prober interface {
	// Devices returns what Open found, in PCI order.
	Devices() []gpu.Device
	// Read takes a reading. It blocks until ctx ends or the prober's own deadline
	// at the latest, and reports failures in Snapshot.Err and Reading.Err.
	Read(ctx context.Context, q Query) gpu.Observation
	// Version names the source: "NVML 13.3, driver 580.65" or "simulated".
	Version() string
	// Complete reports whether Devices has every GPU of the host, none of them in MIG mode,
	// so that indices mean the same to CUDA.
	Complete() bool
	// Private reports whether the devices are this run's alone, so that there is nothing to
	// claim.
	Private() bool
	// Placed tells a simulation, the only one who needs to be told, that an attempt is on
	// the devices of g, or that its memory now belongs to pid.
	Placed(uniID string, pid int, g gpu.Grant)
	// Removed reports that an attempt has ended.
	Removed(uniID string)
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

// unread is the reading of a device that does not answer.
func unread(why string) gpu.Reading { return gpu.Reading{Err: why, Total: -1, Free: -1, Used: -1} }
