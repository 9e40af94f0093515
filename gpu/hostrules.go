package gpu

import (
	"fmt"
	"slices"
	"strings"
	"time"
)

// HostRules are the limits that the host's owner sets for every run, as of some moment. A run's own
// rules may be stricter, but not laxer.
type HostRules struct {
	File string    // path of the rules; "" for a host without rules
	At   time.Time // when they were read, in the host's time zone, which Hours refer to

	Devices        []string      // devices that gpurun may use: indices, ranges, UUIDs; empty for all
	Reserve        int           // how many of these, by highest index, are reserved for users without gpurun
	MaxGPUsPerUser int           // across all of a user's runs; -1 for no limit
	MaxGPUsPerJob  int           // -1 for no limit
	MaxTimeout     time.Duration // applies to jobs without a timeout, too; 0 for no limit
	Others         Others
	Hours          []DeviceHours
	Prompt         string // the owner's message to all users
	Users          []UserEntry

	Fairness
}

// Fairness holds the host owner's rules for turns.
type Fairness struct {
	Schedule Schedule
	Courtesy time.Duration // how long an offer is valid
	Gather   time.Duration // how long devices may be gathered for one job
	Patience time.Duration // how long other jobs may overtake a job before devices are gathered for it
}

// Schedule is the order among waiting users.
type Schedule string

const (
	Balance Schedule = "balance" // first the user who holds the least, relative to their weight
	FIFO    Schedule = "fifo"    // first the user who has waited longest
)

// DeviceHours limit when jobs may start on devices. If several DeviceHours include a device, jobs
// may start on it whenever one of them is open.
type DeviceHours struct {
	Devices []string // empty for all
	Hours   Hours
}

// A UserEntry holds the rules for a user, or for the members of a group.
type UserEntry struct {
	Key      string    // as written: "alice", "@students"
	UIDs     []int     // the users it applies to, among those looked up
	Priority *int      // nil if not given
	MaxGPUs  *int      // nil if not given
	Until    time.Time // when it expires; zero for never
}

func (e *UserEntry) group() bool { return strings.HasPrefix(e.Key, "@") }

// NoHostRules returns the rules of a host without limits.
func NoHostRules() *HostRules {
	return &HostRules{
		MaxGPUsPerUser: -1, MaxGPUsPerJob: -1, Others: OthersAllow,
		Fairness: Fairness{Schedule: Balance, Courtesy: 5 * time.Second, Gather: 30 * time.Minute, Patience: 10 * time.Minute},
	}
}

// WithSource formats a rule with its source, for messages.
func (h *HostRules) WithSource(format string, args ...any) string {
	return fmt.Sprintf(format, args...) + " (" + h.File + ")"
}

// TimeLimit returns the limit on the duration of jobs, with its source, or "".
func (h *HostRules) TimeLimit() string {
	if h.MaxTimeout == 0 {
		return ""
	}
	text := h.MaxTimeout.String() // such as 24h0m0s
	for _, zero := range []string{"m0s", "h0m"} {
		if strings.HasSuffix(text, zero) {
			text = text[:len(text)-2]
		}
	}
	return h.WithSource("max_timeout: %s", text)
}

// UserRules are the host rules for one user.
type UserRules struct {
	Priority  int    // negative: before all others, lowest first; then 0; positive: a weight; 1 by default
	MaxGPUs   int    // across all runs; -1 for no limit
	LimitedBy string // the rule behind MaxGPUs, with its source
}

// defaultPriority is the weight of users without an entry.
const defaultPriority = 1

// User returns the rules for a user at some time. Each value comes from the user's own entry, else
// from the most generous entry of their groups, else from the rules for all users.
func (h *HostRules) User(uid int, now time.Time) UserRules {
	u := UserRules{Priority: defaultPriority, MaxGPUs: h.MaxGPUsPerUser}
	if u.MaxGPUs >= 0 {
		u.LimitedBy = h.WithSource("max_gpus_per_user: %d", u.MaxGPUs)
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
		u.LimitedBy = h.WithSource("max_gpus: %d for %s%s", u.MaxGPUs, limit.Key, limit.until())
	}
	return u
}

// before reports whether a user with priority a goes before one with priority b who holds just as
// much.
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
	if last := e.Until.Add(-time.Second); last.Day() != e.Until.Day() { // the entry ends with a whole day
		return " until " + last.Format(time.DateOnly)
	}
	return " until " + e.Until.Format("2006-01-02 15:04")
}

// Ever is like User, but with the largest number of GPUs that the current rules will ever allow:
// when an entry expires, a more generous one may apply.
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

// Hours are times of the week: "Mon-Fri 20:00-08:00, Sat-Sun". The zero Hours are always open.
type Hours struct {
	text  string
	spans []span
}

// A span recurs on some weekdays. If it ends before it begins, it ends on the next day.
type span struct {
	days     [7]bool // weekdays on which it begins
	from, to int     // minutes of the day; a whole day is 0 to 1440
}

const dayMinutes = 24 * 60

// ParseHours parses times of the week, separated by commas. Each has days (Sat, Mon-Fri), times of
// the day (20:00-08:00), or both. A comma without a space after it separates days: "Mon,Wed
// 20:00-08:00".
func ParseHours(text string) (Hours, error) {
	h := Hours{text: strings.Join(strings.Fields(text), " ")}
	parts, days := strings.Split(h.text, ","), ""
	for i, part := range parts {
		if i+1 < len(parts) && !strings.Contains(part, ":") && !strings.HasPrefix(parts[i+1], " ") {
			days += part + ","
			continue
		}
		s, err := parseSpan(strings.TrimSpace(days + part))
		if err != nil {
			return Hours{}, err
		}
		h.spans, days = append(h.spans, s), ""
	}
	return h, nil
}

func parseSpan(text string) (s span, err error) {
	days, times, both := strings.Cut(text, " ")
	if !both && strings.Contains(text, ":") {
		days, times = "Sun-Sat", text
	}
	if s.days, err = parseDays(days); err != nil || times == "" {
		s.to = dayMinutes
		return s, err
	}
	from, to, ok := strings.Cut(strings.ReplaceAll(times, " ", ""), "-")
	if !ok {
		return s, fmt.Errorf("%q has no end time", times)
	}
	if s.from, err = parseClock(from); err == nil {
		s.to, err = parseClock(to)
	}
	switch {
	case err == nil && s.from == dayMinutes:
		err = fmt.Errorf("%q starts at the end of a day", times)
	case err == nil && s.from == s.to:
		err = fmt.Errorf("%q starts and ends at the same time", times)
	}
	return s, err
}

// parseDays parses days and ranges, separated by commas: "Sat", "Mon-Fri". A range may wrap around
// the end of the week.
func parseDays(text string) (days [7]bool, err error) {
	for _, part := range strings.Split(text, ",") {
		first, last, ranged := strings.Cut(part, "-")
		if !ranged {
			last = first
		}
		from, to := weekday(first), weekday(last)
		if from < 0 || to < 0 {
			return days, fmt.Errorf("invalid day %q (try Mon or Mon-Fri)", part)
		}
		for d := from; d != to; d = (d + 1) % 7 {
			days[d] = true
		}
		days[to] = true
	}
	return days, nil
}

// weekday returns the day given by at least three letters, or -1.
func weekday(text string) int {
	for d := time.Sunday; d <= time.Saturday; d++ {
		if len(text) >= 3 && strings.HasPrefix(strings.ToLower(d.String()), strings.ToLower(text)) {
			return int(d)
		}
	}
	return -1
}

// parseClock parses a time of the day into minutes: 08:00, 8:00, and 24:00 for the end of the day.
func parseClock(text string) (int, error) {
	if text == "24:00" {
		return dayMinutes, nil
	}
	t, err := time.Parse("15:04", text)
	if err != nil {
		return 0, fmt.Errorf("invalid time %q (try 20:00)", text)
	}
	return t.Hour()*60 + t.Minute(), nil
}

// String returns the hours as they were written; "" for always.
func (h Hours) String() string { return h.text }

func (h Hours) or(other Hours) Hours {
	both := Hours{other.text, slices.Concat(h.spans, other.spans)}
	if h.text != "" {
		both.text = h.text + ", " + other.text
	}
	return both
}

// Open reports whether t, in its own time zone, is within the hours.
func (h Hours) Open(t time.Time) bool {
	minute, today := t.Hour()*60+t.Minute(), t.Weekday()
	yesterday := (today + 6) % 7
	return len(h.spans) == 0 || slices.ContainsFunc(h.spans, func(s span) bool {
		if s.from < s.to {
			return s.days[today] && s.from <= minute && minute < s.to
		}
		return s.days[today] && s.from <= minute || s.days[yesterday] && minute < s.to
	})
}

// Opens returns the first time after t when the hours are open. They must be closed at t.
func (h Hours) Opens(t time.Time) (at time.Time) {
	for day := range 9 { // one extra day, for clocks that are set forward
		for _, s := range h.spans {
			begin := time.Date(t.Year(), t.Month(), t.Day()+day, s.from/60, s.from%60, 0, 0, t.Location())
			if s.days[begin.Weekday()] && begin.After(t) && (at.IsZero() || begin.Before(at)) {
				at = begin
			}
		}
	}
	return at
}

// Until returns how long after t the hours open, or 0 if they are open at t.
func (h Hours) Until(t time.Time) time.Duration {
	if h.Open(t) {
		return 0
	}
	return h.Opens(t).Sub(t)
}

// Closed returns when the hours open next, "closed until Mon 20:00", or "" if they are open at t.
func (h Hours) Closed(t time.Time) string {
	if h.Open(t) {
		return ""
	}
	at, layout := h.Opens(t), "15:04"
	if at.YearDay() != t.YearDay() || at.Year() != t.Year() {
		layout = "Mon 15:04"
	}
	return "closed until " + at.Format(layout)
}
