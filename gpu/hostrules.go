package gpu

import (
	"fmt"
	"slices"
	"strings"
	"time"
)

// HostRules are what the owner of the host demands of every run, as of some moment. A run
// may be stricter, never laxer.
type HostRules struct {
	File string    // where they are written; "" for a host without rules
	At   time.Time // when they were read, in the host's time zone: hours count in it

	Devices        []string      // what gpurun may use: indices, ranges, UUIDs; empty for all
	Reserve        int           // how many of these, by the highest indices, are for people without gpurun
	MaxGPUsPerUser int           // over all runs of a user; -1 for no limit
	MaxGPUsPerJob  int           // -1 for no limit
	MaxTimeout     time.Duration // also for jobs without a timeout; 0 for no limit
	Others         Others
	Hours          []DeviceHours
	Prompt         string // what the owner tells everybody
	Users          []UserEntry

	Fairness
}

// Fairness is what the owner of the host says about whose turn it is.
type Fairness struct {
	Schedule Schedule
	Courtesy time.Duration // how long an offer stands
	Gather   time.Duration // how long devices may be gathered for one job
	Patience time.Duration // how long a job is overtaken before that
}

// Schedule is the order among users who wait.
type Schedule string

const (
	Balance Schedule = "balance" // whoever holds least for his weight
	FIFO    Schedule = "fifo"    // whoever has waited longest
)

// DeviceHours say when jobs may start on devices. Where several name a device, each opens it.
type DeviceHours struct {
	Devices []string // empty for all
	Hours   Hours
}

// A UserEntry is what the rules say about a user, or about the members of a group.
type UserEntry struct {
	Key      string    // as written: "alice", "@students"
	UIDs     []int     // whom it was found to mean, among those asked about
	Priority *int      // nil if not given
	MaxGPUs  *int      // nil if not given
	Until    time.Time // when it ceases to count; zero for never
}

// group reports whether the entry is about a group.
func (e *UserEntry) group() bool { return strings.HasPrefix(e.Key, "@") }

// NoHostRules returns the rules of a host whose owner demands nothing.
func NoHostRules() *HostRules {
	return &HostRules{
		MaxGPUsPerUser: -1, MaxGPUsPerJob: -1, Others: OthersAllow,
		Fairness: Fairness{Schedule: Balance, Courtesy: 5 * time.Second, Gather: 30 * time.Minute, Patience: 10 * time.Minute},
	}
}

// Said returns a rule with its source, for whoever is refused by it.
func (h *HostRules) Said(format string, args ...any) string {
	return fmt.Sprintf(format, args...) + " (" + h.File + ")"
}

// TimeLimit returns the rule about how long jobs may run, with its source, or "".
func (h *HostRules) TimeLimit() string {
	if h.MaxTimeout == 0 {
		return ""
	}
	text := h.MaxTimeout.String() // 24h0m0s
	for _, zero := range []string{"m0s", "h0m"} {
		if strings.HasSuffix(text, zero) {
			text = text[:len(text)-2]
		}
	}
	return h.Said("max_timeout: %s", text)
}

// A UserRules is what the host rules say about one user.
type UserRules struct {
	Priority  int    // negative: before everybody, lowest first; then 0; positive: a weight. 1 unless given
	MaxGPUs   int    // over all runs; -1 for no limit
	LimitedBy string // the rule that says so, with its source
}

// defaultPriority is the weight of a user of whom the rules say nothing.
const defaultPriority = 1

// User returns what the rules say about a user at some time. Each key counts by itself: as
// the user's own entry has it, else as the most generous of his groups', else as for everybody.
func (h *HostRules) User(uid int, now time.Time) UserRules {
	u := UserRules{Priority: defaultPriority, MaxGPUs: h.MaxGPUsPerUser}
	if u.MaxGPUs >= 0 {
		u.LimitedBy = h.Said("max_gpus_per_user: %d", u.MaxGPUs)
	}
	var priority, limit *UserEntry
	for i := range h.Users {
		e := &h.Users[i]
		if !slices.Contains(e.UIDs, uid) || !e.Until.IsZero() && !now.Before(e.Until) {
			continue
		}
		if e.Priority != nil && (priority == nil || priority.group() && (!e.group() || before(*e.Priority, *priority.Priority))) {
			priority = e
		}
		if e.MaxGPUs != nil && (limit == nil || limit.group() && (!e.group() || *e.MaxGPUs > *limit.MaxGPUs)) {
			limit = e
		}
	}
	if priority != nil {
		u.Priority = *priority.Priority
	}
	if limit != nil {
		u.MaxGPUs = *limit.MaxGPUs
		u.LimitedBy = h.Said("max_gpus: %d for %s%s", u.MaxGPUs, limit.Key, limit.until())
	}
	return u
}

// before reports whether a user of priority a goes before one of priority b who holds as much.
func before(a, b int) bool {
	if a > 0 && b > 0 {
		return a > b
	}
	return a < b
}

func (e *UserEntry) until() string {
	if e.Until.IsZero() {
		return ""
	}
	if last := e.Until.Add(-time.Second); last.Day() != e.Until.Day() { // a whole day
		return " until " + last.Format(time.DateOnly)
	}
	return " until " + e.Until.Format("2006-01-02 15:04")
}

// Ever is User with the largest number of GPUs that the rules will ever allow, as far as
// they are known now: an entry that ends may give way to a more generous one.
func (h *HostRules) Ever(uid int) UserRules {
	most := h.User(uid, h.At)
	for i := range h.Users {
		if at := h.Users[i].Until; at.After(h.At) {
			if u := h.User(uid, at); most.MaxGPUs >= 0 && (u.MaxGPUs < 0 || u.MaxGPUs > most.MaxGPUs) {
				most = u
			}
		}
	}
	return most
}

// closed describes why no job may start on a device at some time, or returns "". named
// reports whether the i-th hours are about the device.
func (h *HostRules) closed(now time.Time, named func(i int) bool) string {
	var all Hours
	for i := range h.Hours {
		if named(i) {
			all = all.or(h.Hours[i].Hours)
		}
	}
	why := all.Closed(now)
	if why == "" {
		return ""
	}
	return why + ": " + h.Said("hours: %s", all)
}
