// Package probe reads the devices: through NVML, in a child process, or from a
// simulation.
//
// A Prober lists the devices once and takes readings of them. A reading is full,
// with the list of processes and the utilisation, or quick, of memory alone, for
// a hand-over. What cannot be read is unknown, and that alone; what does not
// answer says so in the reading; when nothing answers, the snapshot says why. No
// reading takes longer than its deadline, whatever the driver does.
//
// The package decides nothing about who may use what; package gpu does.
package probe

import (
	"context"
	"time"

	"golang.org/x/sys/unix"

	"gpurun/gpu"
)

// A Query says what to read.
type Query struct {
	UUIDs     []gpu.UUID // of which devices; none for all of them
	Processes bool       // a full reading; else the quick one of memory alone
}

// A Prober is where readings come from. Its methods are called from one
// goroutine at a time.
type Prober interface {
	// Devices lists what was found at Open, in PCI order.
	Devices() []gpu.Device
	// Read takes a reading. It blocks, no longer than ctx and the prober's own
	// deadline let it, and never fails: failures are in Snapshot.Err and Reading.Err.
	Read(ctx context.Context, q Query) gpu.Snapshot
	// Version says what is read: "NVML 13.3, driver 580.65", or "simulated".
	Version() string
	// Close lets go of the driver.
	Close() error
}

// Missing is why there is no GPU to be had through NVML.
type Missing struct {
	Text string // what is missing
	Hint string // the cure
}

func (m *Missing) Error() string { return m.Text }

// Boottime is CLOCK_BOOTTIME now: it goes on while the machine sleeps, and no
// change of the clock moves it.
func Boottime() time.Duration {
	var ts unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_BOOTTIME, &ts); err != nil {
		panic("no CLOCK_BOOTTIME: " + err.Error())
	}
	return time.Duration(ts.Nano())
}
