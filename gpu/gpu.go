// Package gpu says what devices there are and how much of them may be had.
//
// A Device is a GPU, or a MIG instance, known by its UUID; its index is for
// people. A Reading is what was seen of one device at one moment; a Snapshot is
// one reading of every managed device. A Request is what a job asks for, a Grant
// what it was given. Promised memory is what was granted on a device and has not
// yet been taken.
//
// The package is pure: it reads no clock, file or driver, and holds no lock.
// Times are durations of CLOCK_BOOTTIME that the caller passes in.
package gpu

import (
	"fmt"
	"strings"
	"time"
)

// UUID names a device for good: "GPU-…" or "MIG-…", as NVML spells it.
type UUID string

// simulated is how the UUIDs of simulated GPUs begin. Ledgers hold them: it stays.
const simulated = "GPU-sim-"

// SimulatedUUID is that of the i-th simulated GPU of a set that id names.
func SimulatedUUID(id uint32, i int) UUID { return UUID(fmt.Sprintf(simulated+"%08x-%03d", id, i)) }

// Simulated reports whether u is of a simulated GPU.
func (u UUID) Simulated() bool { return strings.HasPrefix(string(u), simulated) }

// A Device is what never changes about a GPU or a MIG instance while it is there.
type Device struct {
	Index       int    // NVML's index, for people; MIG instances have their parent's
	UUID        UUID   // identity
	Name        string // product name, "NVIDIA A100-SXM4-80GB"
	PCI         string // bus id, "00000000:3B:00.0"; devices are listed in this order
	Total       Bytes  // all of its memory; 0 when unknown
	MIG         bool   // an instance, not a whole GPU
	Parent      UUID   // of a MIG instance: the GPU that it is a part of
	ComputeMode ComputeMode
	Silent      bool `json:",omitempty"` // it has never answered: only its index is known, and UUID stands in for its own
}

// ComputeMode is the driver's rule about how many processes may use a device.
type ComputeMode int

const (
	ComputeDefault    ComputeMode = iota // any number of processes
	ComputeExclusive                     // one process at most
	ComputeProhibited                    // none
)

// A Process is one that has a compute context on a device.
type Process struct {
	PID      int    // the host's
	UID      int    // its user; -1 when it cannot be found out, and then it counts as another user's
	User     string // login name of UID for messages, or ""
	Command  string // short name for messages, or ""
	Memory   Bytes  // on this device; -1 when unknown
	Attempt  string // uni_id of the attempt of this run whose tree it belongs to, or ""
	Doubtful bool   `json:",omitempty"` // its pid is of another pid namespace, where another process may have it
}

// A Sample is the utilisation over a short time up to At.
type Sample struct {
	At      time.Duration // CLOCK_BOOTTIME
	Percent int           // 0 to 100
}

// A Reading is what was seen of one device. Unknown values are -1: one that
// cannot be read makes that value unknown and nothing more.
type Reading struct {
	UUID        UUID
	Err         string   // why the device does not answer ("GPU is lost"); "" when it does. The rest is then void
	Total       Bytes    // -1 unknown
	Free        Bytes    // NVML's free; -1 unknown
	Used        Bytes    // without what the driver reserves, where NVML tells; -1 unknown
	Samples     []Sample // newest last; NVML's own buffer, or the one value read now; empty when unknown (MIG)
	ComputeMode ComputeMode
	Listed      bool // Processes were read; false after a quick reading of memory alone
	Processes   []Process
	Found       *Device `json:",omitempty"` // a silent device has answered: this is what it is, from now on by its own UUID
}

// A Claim is what another run on this host holds of a device.
type Claim struct {
	UUID    UUID
	User    string
	Job     string
	PID     int // of the holder, the parent of the attempt's processes; 0 where its pids mean nothing here
	Since   time.Time
	Memory  Bytes  // granted
	Taken   Bytes  // of it in use by the claim's process tree now; 0 when unknown
	Share   bool   // the holder lets others stand beside it
	Over    bool   // its attempt has ended, and the device passes to the next one of that run
	Attempt string // uni_id of the attempt that it is for
}

// A Snapshot is one reading of every managed device, or, after a hand-over, of a few.
type Snapshot struct {
	At       time.Duration // CLOCK_BOOTTIME when it was taken
	Readings []Reading     // in PCI order
	Claims   []Claim       // of other runs; nil when claims were not read
	Err      string        // why there is no reading at all (driver gone, reading hung); "" when there is
}

// A Request is what one job asks for. The zero Request asks for no GPU.
type Request struct {
	Min, Max  int      // how many devices: at least Min, up to Max; 0, 0 for a CPU job
	Memory    Bytes    // free on each of them, and set aside from the start on
	MaxUtil   int      // percent; 100 when there is no limit
	UtilOnOwn bool     // MaxUtil holds also where all processes are this user's own (experiment lists)
	Models    []string // only devices whose name contains one of these, whatever the case; empty for any
	IDs       []string // only these, indices or UUIDs (or a unique beginning of one); empty for any
	Share     bool     // may stand beside other jobs
}

// A Grant is what an attempt was given: all of it at once, or none.
type Grant struct {
	UUIDs   []UUID
	Indices []int // the host's, parallel to UUIDs
	Memory  Bytes // promised on each
	Share   bool
}
