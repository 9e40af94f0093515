package claim

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"os"
	"slices"
	"strings"
	"time"

	"gpurun/gpu"
	"gpurun/state/host"
)

// Past use of GPUs is recorded in SET.usage in each user's folder, so it outlives runs. A user's
// file records what their own runs held, as each run reports it, and what those runs saw other
// users hold. Where files differ, the scheduler uses the larger value.
const (
	usageSuffix  = ".usage"
	usageVersion = 1
	usageDays    = 31  // number of days that are kept
	maxUsers     = 128 // maximum in one file
)

// Set returns a name for the devices whose use is recorded: those of the host, or simulated ones.
func Set(devs []gpu.Device) string {
	if len(devs) > 0 && devs[0].UUID.Simulated() {
		id := string(devs[0].UUID)
		return id[:max(0, strings.LastIndexByte(id, '-'))]
	}
	return "host"
}

// A Usage is the recorded use of devices by a user, and by other users as that user's runs saw it.
type Usage struct {
	Version int         `json:"version"`
	UID     int         `json:"uid"` // owner of the file
	Set     string      `json:"set"`
	At      time.Time   `json:"at"`         // time of the last change
	Seen    time.Time   `json:"seen_until"` // time up to which others' use is included
	Users   []UserUsage `json:"users"`
	BootID  string      `json:"boot_id"`
	Idle    []gpu.Idle  `json:"idle,omitempty"`
}

// A UserUsage is the recorded use of one user.
type UserUsage struct {
	gpu.Use           // halved every day, as of the last change
	Days    []float64 `json:"gpu_seconds_by_day"` // UTC, the day of the last change first
}

// parseUsage parses a record from an untrusted writer, who must be user uid, and advances it to
// now.
func parseUsage(b []byte, uid int, set string, now time.Time) (*Usage, error) {
	var u Usage
	if err := json.Unmarshal(b, &u); err != nil {
		return nil, fmt.Errorf("not a record of GPU time: %w", err)
	}
	switch {
	case u.Version < 1 || u.Set != set:
		return nil, errors.New("not a record of GPU time: it lacks a version, or its name does not match its set")
	case u.UID != uid:
		return nil, fmt.Errorf("it names uid %d but belongs to uid %d", u.UID, uid)
	}
	u.Users = u.Users[:min(len(u.Users), maxUsers)]
	for i := range u.Users {
		x := &u.Users[i]
		x.Days = x.Days[:min(len(x.Days), usageDays)]
		x.Seconds = min(max(x.Seconds, 0), maxSeconds)
		for k := range x.Days {
			x.Days[k] = min(max(x.Days[k], 0), maxSeconds)
		}
	}
	u.Idle = slices.DeleteFunc(u.Idle[:min(len(u.Idle), maxDevices)], func(i gpu.Idle) bool {
		return u.BootID != host.BootID() || i.UUID == "" || i.Since < 0 || i.Since > i.Until || i.Busy > i.Until || i.Until > host.Boottime()
	})
	u.advance(now)
	return &u, nil
}

// advance brings a record up to now. If the clock was set back, the recorded use does not change.
func (u *Usage) advance(now time.Time) {
	if !now.After(u.At) {
		u.At = now
		return
	}
	shift := min(int(day(now)-day(u.At)), usageDays)
	for i := range u.Users {
		x := &u.Users[i]
		x.Use = x.Later(now.Sub(u.At))
		days := append(make([]float64, shift, usageDays+shift), x.Days...)
		x.Days = days[:min(len(days), usageDays)]
	}
	u.At = now
}

func day(t time.Time) int64 { return int64(math.Floor(float64(t.Unix()) / 86400)) }

// add adds GPU seconds to a user, as of the last change.
func (u *Usage) add(uid int, seconds float64) {
	if seconds <= 0 {
		return
	}
	i := slices.IndexFunc(u.Users, func(x UserUsage) bool { return x.UID == uid })
	if i < 0 {
		i = len(u.Users)
		u.Users = append(u.Users, UserUsage{Use: gpu.Use{UID: uid}})
	}
	x := &u.Users[i]
	if len(x.Days) == 0 {
		x.Days = []float64{0}
	}
	x.Seconds += seconds
	x.Days[0] += seconds
}

// count adds the use by a run of this user up to now. Several runs may have seen the same claims of
// other users, which count only once.
func (u *Usage) count(s gpu.Spent, now time.Time) {
	u.advance(now)
	u.Version, u.UID, u.BootID = usageVersion, host.CurrentUID(), host.BootID()
	u.add(u.UID, s.Own)
	if fresh := min(now.Sub(u.Seen), s.Passed); fresh > 0 && s.Passed > 0 {
		for _, o := range s.Others {
			u.add(o.UID, o.Seconds*float64(fresh)/float64(s.Passed))
		}
	}
	if u.Seen.Before(now) {
		u.Seen = now
	}
	u.Users = slices.DeleteFunc(u.Users, func(x UserUsage) bool {
		return x.UID != u.UID && !slices.ContainsFunc(x.Days, func(s float64) bool { return s > 0 })
	})
	rank := func(x *UserUsage) float64 { // this user first, then by use
		if x.UID == u.UID {
			return math.Inf(-1)
		}
		return -x.Seconds
	}
	slices.SortStableFunc(u.Users, func(a, b UserUsage) int { return cmp.Compare(rank(&a), rank(&b)) })
	u.Users = u.Users[:min(len(u.Users), maxUsers)]
	for i := range u.Users { // shorter numbers keep the file small
		x := &u.Users[i]
		x.Seconds = math.Round(x.Seconds*1000) / 1000
		for k := range x.Days {
			x.Days[k] = math.Round(x.Days[k]*1000) / 1000
		}
	}
	u.Idle = gpu.Merge(s.Idle, u.Idle)
	u.Idle = u.Idle[:min(len(u.Idle), maxDevices)]
}

func usageName(set string) string { return fileName(set, 0) + usageSuffix }

// Past returns this user's record for a set of devices, as of now; empty if there is none.
func Past(roots []string, set string) *Usage {
	for _, f := range mine(roots...) {
		d, err := openFolder(f)
		if err != nil {
			continue
		}
		u, err := readUsage(d, host.CurrentUID(), set)
		d.Close()
		if err == nil {
			return u
		}
	}
	return &Usage{Set: set, At: time.Now()}
}

// readUsage reads the record of user uid in their folder, under the rules for claims.
func readUsage(d *os.File, uid int, set string) (*Usage, error) {
	b, err := readPlain(d, usageName(set), uid)
	if err != nil {
		return nil, err
	}
	return parseUsage(b, uid, set, time.Now())
}

// Account adds s, what a run of this user has used until now, to the record for a set of devices. It
// writes the record below the first root that accepts it.
func Account(roots []string, set string, s gpu.Spent) error {
	_, err := inFirst(roots, func(dir *os.File) error {
		return replace(dir, usageName(set), func() ([]byte, error) {
			u, err := readUsage(dir, host.CurrentUID(), set)
			if err != nil {
				u = &Usage{Set: set, At: time.Now()} // the record only breaks ties, so start over
			}
			u.count(s, time.Now())
			return json.Marshal(u)
		})
	})
	return err
}

// Usages returns the users' records, at most one per user, as of the last call of Others.
func (r *Reader) Usages() []Usage { return r.latest().usages }
