package gpu

import "strings"

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
