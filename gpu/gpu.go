// Package gpu decides which devices a job may use, and how much of each.
//
// A Device is a GPU or a MIG instance, identified by its UUID; its index is for
// people. A Reading is the state of one device at one moment; an Observation is one
// reading of every managed device. A Request is what a job asks for, a Grant
// what it gets. Promised memory has been granted on a device but not yet
// allocated.
//
// The package is pure: it reads no clock, file or driver, and holds no lock.
// Times are durations of CLOCK_BOOTTIME that the caller passes in.
package gpu

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"
)

// UUID identifies a device permanently: "GPU-…" or "MIG-…", as NVML spells it.
type UUID string

// simulated is the prefix of simulated GPUs' UUIDs. Ledgers contain it: never change it.
const simulated = "GPU-sim-"

// SimulatedUUID returns the UUID of the i-th simulated GPU of set id.
func SimulatedUUID(id uint32, i int) UUID { return UUID(fmt.Sprintf(simulated+"%08x-%03d", id, i)) }

// Simulated reports whether u belongs to a simulated GPU.
func (u UUID) Simulated() bool { return strings.HasPrefix(string(u), simulated) }

// A Placement says who chooses the devices of a job.
type Placement int

const (
	Here      Placement = iota // gpurun, among the devices of this host that it reads
	Elsewhere                  // the engine, among devices that gpurun cannot see
)

func (u UUID) mig() bool { return strings.HasPrefix(string(u), "MIG-") }

// A Device holds what never changes about a GPU or a MIG instance while it exists.
type Device struct {
	Index       int    // NVML's index, for people; a MIG instance has its parent's
	UUID        UUID   // identity
	Name        string // product name, "NVIDIA A100-SXM4-80GB"
	PCI         string // bus ID, "00000000:3B:00.0"; devices are listed in this order
	Total       Bytes  // total memory; 0 if unknown
	MIG         bool   // an instance rather than a whole GPU
	Parent      UUID   // GPU that a MIG instance is part of
	ComputeMode ComputeMode
	Silent      bool `json:",omitempty"` // has never answered: only its index is known, and UUID is a placeholder

	NUMA  string             `json:",omitempty"` // number of its NUMA node; "" if unknown
	Cores string             `json:",omitempty"` // of that node, "0-15,32-47"; "" if unknown
	Links map[UUID]Closeness `json:",omitempty"` // to other devices; to the rest by NUMA
}

// ComputeMode is the driver's rule about how many processes may use a device.
type ComputeMode int

const (
	ComputeDefault    ComputeMode = iota // any number of processes
	ComputeExclusive                     // at most one process
	ComputeProhibited                    // none
)

// A Process has a compute context on a device.
type Process struct {
	PID      int    // on the host
	UID      int    // of its user; -1 if unknown, which counts as another user
	User     string // login name of UID for messages, or ""
	Command  string // short name for messages, or ""
	Memory   Bytes  // on this device; -1 if unknown
	Attempt  string // uni_id of this run's attempt that it belongs to, or ""
	Doubtful bool   `json:",omitempty"` // the pid is from another pid namespace and may be a different process here
}

// A Sample is the utilization over a short time up to At.
type Sample struct {
	At      time.Duration // CLOCK_BOOTTIME
	Percent int           // 0 to 100
}

// A Reading is the state of one device. Unknown values are -1. Failing to read
// one value makes only that value unknown.
type Reading struct {
	UUID        UUID
	Err         string   // why the device does not answer ("GPU is lost"), or ""; if set, ignore the rest
	Lost        bool     `json:",omitempty"` // with Err: it has fallen off the bus
	Total       Bytes    // -1 if unknown
	Free        Bytes    // NVML's free; -1 if unknown
	Used        Bytes    // excluding what the driver reserves, if NVML reports that; -1 if unknown
	Samples     []Sample // newest last; NVML's own buffer, or the current value; empty if unknown (MIG)
	ComputeMode ComputeMode
	Health      *Health `json:",omitempty"` // nil if unknown or not read
	Listed      bool    // Processes were read; false for a quick reading of memory only
	Processes   []Process
	Found       *Device `json:",omitempty"` // a silent device's identity once it answers; from then on it goes by its own UUID
}

// Unseen returns the memory in use by no visible process; 0 if unknown.
func (r *Reading) Unseen() Bytes {
	rest := r.Used
	if rest < 0 && r.Free >= 0 {
		rest = r.Total - r.Free
	}
	for i := range r.Processes {
		if r.Processes[i].Memory < 0 {
			return 0
		}
		rest -= r.Processes[i].Memory
	}
	return max(0, rest)
}

// A Claim is what another run on this host holds of a device.
type Claim struct {
	UUID    UUID
	UID     int // of the user
	User    string
	Job     string
	PID     int // of the holder, the parent of the attempt's processes; 0 if from another pid namespace
	Since   time.Time
	Memory  Bytes  // granted
	Taken   Bytes  // part of Memory that the claim's process tree uses now; 0 if unknown
	Share   bool   // the holder shares the device
	Slots   int    // with at most so many jobs in all; 0 for any number
	Attempt string // uni_id of the attempt
	Run     string // ID of the run that made it
	To      string // its attempt has ended, and this run may have the device; "" while it lasts

	Background bool // its run gives way to every other

	Beyond
}

// Beyond is what an attempt holds besides devices, and until when.
type Beyond struct {
	CPUs int       `json:",omitempty"` // cores
	RAM  Bytes     `json:",omitempty"` // host memory
	Ends time.Time // when it ends, as far as its run knows; zero if unknown
}

// An Observation is one reading of every managed device or, after a hand-over, of some.
type Observation struct {
	At       time.Duration // CLOCK_BOOTTIME at which it was taken
	Readings []Reading     // in PCI order
	Claims   []Claim       // of other runs; nil if claims were not read
	Sick     []Quarantine  // by any user, also those that are over; nil if they were not read
	Host     *HostRules    // as of now; nil if they were not read
	Wishes   []Wish        // of other runs, read with the claims
	Err      string        // why there is no reading at all (driver gone, reading hung), or ""
}

// Users returns whose the claims and the wishes are.
func (o *Observation) Users() (uids []int) {
	for i := range o.Claims {
		uids = append(uids, o.Claims[i].UID)
	}
	for i := range o.Wishes {
		uids = append(uids, o.Wishes[i].UID)
	}
	return uids
}

// A Grant is what an attempt was given, all at once or not at all.
type Grant struct {
	UUIDs   []UUID
	Indices []int // on the host, parallel to UUIDs
	Memory  Bytes // promised on each
	Share   bool
	Slots   int       `json:",omitempty"` // with Share: at most so many jobs on each; 0 for any number
	Close   Closeness `json:",omitempty"` // of several devices

	Since      time.Time // when; zero for just now
	Background bool      `json:",omitempty"` // its run gives way to every other

	Beyond
}

// Environ returns the variables that show a process the devices of g and no others: as
// host indices if these are sure to name the same devices, else as UUIDs.
func (g Grant) Environ(indexed bool) []string {
	cuda, nvidia := "-1", "void"
	if len(g.UUIDs) > 0 {
		names := make([]string, len(g.UUIDs))
		for i, id := range g.UUIDs {
			names[i] = string(id)
			if indexed && !slices.ContainsFunc(g.UUIDs, UUID.mig) {
				names[i] = strconv.Itoa(g.Indices[i])
			}
		}
		cuda = strings.Join(names, ",")
		nvidia = cuda
	}
	return []string{"CUDA_VISIBLE_DEVICES=" + cuda, "NVIDIA_VISIBLE_DEVICES=" + nvidia, "CUDA_DEVICE_ORDER=PCI_BUS_ID"}
}

// A Request is what one job asks for. The zero Request asks for no GPU. Requests can be
// compared: equal ones are alike in every respect, so a Request is its own key.
type Request struct {
	Min, Max  int   // how many devices: at least Min, up to Max; 0, 0 for a CPU job
	Memory    Bytes // must be free on each, and is set aside from the start
	MaxUtil   int   // percent; 100 for no limit
	UtilOnOwn bool  // MaxUtil also applies if all processes are this user's own (experiment lists)
	Models    Names // only devices whose name contains one of these, ignoring case; empty for any
	IDs       Names // only these indices, UUIDs or unique UUID prefixes; empty for any
	Share     bool  // may share a device with other jobs
	Slots     int   // at most so many jobs on each device, this one included; 0 for any number
	Part      bool  // instead of Memory, a Slots-th of what the device has free when nobody is on it
	Avoid     Names // not these UUIDs, on which it failed before
}

// Names is a list of names that can be compared.
type Names string

// NamesOf returns a list as Names.
func NamesOf(list []string) Names { return Names(strings.Join(list, "\x00")) }

// List returns the names.
func (n Names) List() []string {
	if n == "" {
		return nil
	}
	return strings.Split(string(n), "\x00")
}

// AtLeast reports whether r asks for no less than other does in every respect, so that r
// finds no devices where other found none. Fields that it does not weigh must be equal.
func (r Request) AtLeast(other Request) bool {
	least := other
	least.Min, least.Max, least.Models, least.IDs, least.Avoid = r.Min, r.Max, r.Models, r.IDs, r.Avoid
	least.Memory, least.MaxUtil, least.UtilOnOwn = r.Memory, r.MaxUtil, r.UtilOnOwn
	return least == r && other.Min <= 1 && other.Models == "" && other.IDs == "" && other.Avoid == "" &&
		r.Memory >= other.Memory && r.MaxUtil <= other.MaxUtil && (r.UtilOnOwn || !other.UtilOnOwn)
}
