// Package gpu decides which devices a job may use, and how much of each.
//
// A Device is a GPU or a MIG instance, identified by its UUID; its index is for display. A Reading
// is the state of one device at one moment; an Observation is one reading of every managed device.
// A Request is what a job asks for, and a Grant is what it gets. Promised memory has been granted
// on a device but not allocated yet.
//
// The package is pure: it reads no clock, file or driver, and holds no lock. Callers pass times as
// values of CLOCK_BOOTTIME.
package gpu

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"
)

// UUID identifies a device permanently: "GPU-…" or "MIG-…", as in NVML.
type UUID string

// simulated is the prefix of simulated GPUs' UUIDs. Ledgers contain it, so it must never change.
const simulated = "GPU-sim-"

// SimulatedUUID returns the UUID of the i-th simulated GPU of set id.
func SimulatedUUID(id uint32, i int) UUID { return UUID(fmt.Sprintf(simulated+"%08x-%03d", id, i)) }

// Simulated reports whether u belongs to a simulated GPU.
func (u UUID) Simulated() bool { return strings.HasPrefix(string(u), simulated) }

// Every stands for all devices in the claim of a user whose claims cannot be read.
const Every UUID = "*"

func (u UUID) mig() bool { return strings.HasPrefix(string(u), "MIG-") }

// A Device holds the constant properties of a GPU or a MIG instance.
type Device struct {
	Index       int    // NVML's index, for display; for a MIG instance, its parent's
	UUID        UUID   // identity
	Name        string // product name, "NVIDIA A100-SXM4-80GB"
	PCI         string // bus ID, "00000000:3B:00.0"; devices are listed in this order
	Total       Bytes  // total memory; 0 if unknown
	MIG         bool   // an instance rather than a whole GPU
	Parent      UUID   // the GPU that a MIG instance belongs to
	ComputeMode ComputeMode
	Silent      bool `json:",omitempty"` // it has never answered, so only its index is known, and UUID is a placeholder

	NUMA  string             `json:",omitempty"` // number of its NUMA node; "" if unknown
	Cores string             `json:",omitempty"` // cores of that node, "0-15,32-47"; "" if unknown
	Links map[UUID]Closeness `json:",omitempty"` // connections to other devices; those not listed follow from NUMA
}

// ComputeMode is the driver's limit on how many processes may use a device.
type ComputeMode int

const (
	ComputeDefault    ComputeMode = iota // any number of processes
	ComputeExclusive                     // at most one process
	ComputeProhibited                    // none
)

// A Process is a process with a compute context on a device.
type Process struct {
	PID      int           // PID on the host
	UID      int           // -1 if unknown, which counts as another user
	User     string        // login name of UID for messages, or ""
	Command  string        // short name for messages, or ""
	Memory   Bytes         // on this device; -1 if unknown
	Attempt  string        // uni_id of the attempt of this run that it belongs to, or ""
	Start    time.Duration `json:",omitempty"` // CLOCK_BOOTTIME; 0 if unknown
	Doubtful bool          `json:",omitempty"` // the PID is from another PID namespace and may be a different process here
}

// A Sample is the utilization over a short period up to At.
type Sample struct {
	At      time.Duration // CLOCK_BOOTTIME
	Percent int           // 0 to 100
}

// A Reading is the state of one device. Unknown values are -1. If one value cannot be read, only
// that value is unknown.
type Reading struct {
	UUID        UUID
	Err         string   // why the device does not answer ("GPU is lost"), or ""; if set, ignore the other fields
	Lost        bool     `json:",omitempty"` // with Err: it has fallen off the bus
	Total       Bytes    // -1 if unknown
	Free        Bytes    // NVML's free; -1 if unknown
	Used        Bytes    // without memory reserved by the driver, if NVML reports that; -1 if unknown
	Samples     []Sample // newest last: NVML's own buffer, then the current value; empty if unknown (MIG)
	ComputeMode ComputeMode
	Health      *Health `json:",omitempty"` // nil if unknown or not read
	Listed      bool    // Processes were read; false for a quick reading of memory only
	Processes   []Process
	Found       *Device `json:",omitempty"` // the identity of a silent device once it answers; from then on it has its own UUID
}

// Unseen returns the memory in use by no visible process; 0 if unknown.
func (r *Reading) Unseen() Bytes {
	rest := r.Used
	if rest < 0 && r.Free >= 0 {
		rest = r.Total - r.Free
	}
	taken, known := memoryOf(r.Processes)
	if !known {
		return 0
	}
	return max(0, rest-taken)
}

// memoryOf returns the memory used by processes, and whether all of it is known.
func memoryOf(procs []Process) (sum Bytes, known bool) {
	for i := range procs {
		if procs[i].Memory < 0 {
			return 0, false
		}
		sum += procs[i].Memory
	}
	return sum, true
}

// A Claim is a device, or part of one, that another run on this host holds.
type Claim struct {
	UUID    UUID
	UID     int // of User
	User    string
	Job     string
	PID     int // of the holder, the parent of the attempt's processes; 0 if from another PID namespace
	Since   time.Time
	Memory  Bytes  // granted
	Taken   Bytes  // part of Memory in use by the claim's process tree; 0 if unknown
	Share   bool   // the holder shares the device
	Slots   int    // maximum number of jobs on the device; 0 for no limit
	Attempt string // uni_id of the attempt
	Run     string // ID of the run that made it
	To      string // ID of the run that may use the device now that the attempt has ended; "" before that

	Background bool // its run gives way to all others
	Gathering  bool // the device is reserved, without a job, until its run has all devices that a job needs

	HostResources
}

// HostResources are the host resources of an attempt, and how long it holds them.
type HostResources struct {
	CPUs int       `json:",omitempty"` // cores
	RAM  Bytes     `json:",omitempty"` // host memory
	Ends time.Time `json:",omitzero"`  // expected end, from its timeout or from similar jobs; zero if unknown
}

// An Observation is one reading of every managed device or, after a hand-over, of some.
type Observation struct {
	At          time.Duration // CLOCK_BOOTTIME at which it was taken
	Readings    []Reading     // in PCI order
	Claims      []Claim       // claims of other runs; nil if claims were not read
	Quarantines []Quarantine  // of any user, including expired ones; nil if they were not read
	Host        *HostRules    // current rules; nil if they were not read
	Wishes      []Wish        // wishes of other runs, read with the claims
	Err         string        // why there is no reading at all (driver gone, reading hung), or ""
}

// Without returns the observation without the processes for which of returns true.
func (o *Observation) Without(of func(*Process) bool) Observation {
	w := *o
	w.Readings = slices.Clone(o.Readings)
	for i := range w.Readings {
		r := &w.Readings[i]
		r.Processes = slices.DeleteFunc(slices.Clone(r.Processes), func(p Process) bool {
			gone := of(&p)
			if gone && p.Memory > 0 {
				r.Used, r.Free = max(r.Used-p.Memory, 0), min(r.Free+p.Memory, r.Total)
			}
			return gone
		})
		if r.Listed && len(r.Processes) == 0 {
			r.Samples = nil // the load was caused by these processes, or by others that have ended
		}
	}
	return w
}

// Users returns the users of the claims and wishes.
func (o *Observation) Users() (uids []int) {
	for i := range o.Claims {
		uids = append(uids, o.Claims[i].UID)
	}
	for i := range o.Wishes {
		uids = append(uids, o.Wishes[i].UID)
	}
	return uids
}

// A Grant is what an attempt gets, all of it or nothing.
type Grant struct {
	UUIDs   []UUID
	Indices []int // on the host, in the order of UUIDs
	Memory  Bytes // promised on each device
	Share   bool
	Slots   int       `json:",omitempty"` // with Share: maximum number of jobs on each device; 0 for no limit
	Close   Closeness `json:",omitempty"` // for several devices

	Since      time.Time // time of the grant; zero means now
	Background bool      `json:",omitempty"` // its run gives way to all others
	Gathering  bool      `json:",omitempty"` // it is reserved for an attempt that has not started; see Claim

	HostResources
}

// Environ returns the variables that make exactly the devices of g visible to a process. It names
// the devices by UUID or, if indexed is set and none is a MIG instance, by host index.
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

// A Request is what one job asks for. The zero Request asks for no GPU. Requests are comparable, so
// they can be used as map keys.
type Request struct {
	Min, Max  int           // number of devices, from Min to Max; 0, 0 for a CPU job
	Memory    Bytes         // must be free on each device, and is reserved from the start
	MaxUtil   int           // percent; 100 for no limit
	UtilOnOwn bool          // MaxUtil also applies if all processes belong to this user (experiment lists)
	Models    Names         // only devices whose name contains one of these, ignoring case; empty for all
	IDs       Names         // only these indices, UUIDs or unique UUID prefixes; empty for all
	Share     bool          // may share a device with other jobs
	Slots     int           // maximum number of jobs on each device, including this one; 0 for no limit
	Part      bool          // the job needs 1/Slots of the empty device's free memory, instead of Memory
	Lasts     time.Duration // maximum duration; 0 if unknown
	Avoid     Names         // UUIDs of devices on which the job failed before
}

// Names is a comparable list of names.
type Names string

// NamesOf converts a list to Names.
func NamesOf(list []string) Names { return Names(strings.Join(list, "\x00")) }

// List returns the names.
func (n Names) List() []string {
	if n == "" {
		return nil
	}
	return strings.Split(string(n), "\x00")
}

// AtLeast reports whether r asks for at least as much as other in every respect. If so, r finds no
// devices if other found none. AtLeast is conservative: other must ask for at most one device and
// restrict neither models nor devices, and fields that have no order must be equal.
func (r Request) AtLeast(other Request) bool {
	least := other
	least.Min, least.Max, least.Models, least.IDs, least.Avoid = r.Min, r.Max, r.Models, r.IDs, r.Avoid
	least.Memory, least.MaxUtil, least.UtilOnOwn = r.Memory, r.MaxUtil, r.UtilOnOwn
	return least == r && other.Min <= 1 && other.Models == "" && other.IDs == "" && other.Avoid == "" &&
		r.Memory >= other.Memory && r.MaxUtil <= other.MaxUtil && (r.UtilOnOwn || !other.UtilOnOwn)
}

// Select returns the devices given by ids: indices, index ranges ("2-3"), UUIDs or unique UUID
// prefixes. A GPU's index or UUID also selects its MIG instances. Without ids, it returns all
// devices. The error names an id that matches nothing, or more than one GPU.
func Select(devs []Device, ids []string) ([]Device, error) {
	for _, id := range ids {
		if _, err := match(devs, id); err != nil {
			return nil, err
		}
	}
	var selected []Device
	for i, ok := range matches(devs, ids) {
		if ok {
			selected = append(selected, devs[i])
		}
	}
	return selected, nil
}

// matches returns, for each device, whether ids include it. It ignores ids that match nothing.
func matches(devs []Device, ids []string) []bool {
	named := make([]bool, len(devs))
	for i := range named {
		named[i] = len(ids) == 0
	}
	for _, id := range ids {
		some, _ := match(devs, id)
		for _, i := range some {
			named[i] = true
		}
	}
	return named
}

// match returns the positions of the devices that id selects. An unknown UUID may belong to any
// device that has never answered.
func match(devs []Device, id string) ([]int, error) {
	id = strings.TrimSpace(id)
	from, to, numbered := Range(id)
	var found, silent []int
	for i, d := range devs {
		switch {
		case numbered:
			if from <= d.Index && d.Index <= to {
				found = append(found, i)
			}
		case id == "":
		case string(d.UUID) == id:
			return []int{i}, nil
		case strings.HasPrefix(string(d.UUID), id) || strings.HasPrefix(string(d.Parent), id):
			found = append(found, i)
		case d.Silent:
			silent = append(silent, i)
		}
	}
	switch {
	case len(found)+len(silent) == 0:
		return nil, fmt.Errorf("no GPU here matches %q: this machine has %s", id, listed(devs))
	case len(found) == 0:
		return silent, nil
	}
	for _, i := range found {
		if !numbered && named(devs[i], id) != named(devs[found[0]], id) {
			return nil, fmt.Errorf("%q is ambiguous: it matches the UUIDs of several GPUs", id)
		}
	}
	return found, nil
}

// named returns the UUID that begins with id: the device's, or its parent GPU's.
func named(d Device, id string) UUID {
	if strings.HasPrefix(string(d.UUID), id) {
		return d.UUID
	}
	return d.Parent
}

// Range parses "3" or "2-5".
func Range(text string) (from, to int, ok bool) {
	a, b, isRange := strings.Cut(text, "-")
	from, err := strconv.Atoi(a)
	if err != nil || from < 0 {
		return 0, 0, false
	}
	if !isRange {
		return from, from, true
	}
	to, err = strconv.Atoi(b)
	return from, to, err == nil && to >= from
}

func listed(devs []Device) string {
	if len(devs) == 0 {
		return "none"
	}
	var names []string
	for _, d := range devs {
		names = append(names, strconv.Itoa(d.Index)+" ("+string(d.UUID)+")")
	}
	if n := len(names); n > 8 {
		names = append(names[:8], fmt.Sprintf("and %d more", n-8))
	}
	return strings.Join(names, ", ")
}

// is reports whether the device's name contains one of models, ignoring case. A device that has
// never answered may be any model.
func (d Device) is(models Names) bool {
	return models == "" || d.Silent || slices.ContainsFunc(models.List(), func(m string) bool {
		return strings.Contains(strings.ToLower(d.Name), strings.ToLower(m))
	})
}
