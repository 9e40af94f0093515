package host

import (
	"errors"
	"os"
	"strconv"
	"strings"
	"sync"
)

// In a rootless container, uids differ from those on the host. Runs exchange host uids with each
// other.

// uidMap is /proc/self/uid_map, which maps uids in this namespace to host uids.
var uidMap = sync.OnceValue(func() uidRanges {
	b, err := os.ReadFile("/proc/self/uid_map")
	if _, missing := os.Stat("/proc/self"); errors.Is(err, os.ErrNotExist) && missing == nil {
		return uidRanges{{count: 1 << 32}} // a kernel without user namespaces
	}
	return parseUIDMap(string(b))
})

type uidRanges []struct{ inside, outside, count int }

// parseUIDMap parses lines of three numbers, user_namespaces(7).
func parseUIDMap(text string) (ranges uidRanges) {
	for line := range strings.Lines(text) {
		var n [3]int
		fields := strings.Fields(line)
		for i := range min(len(fields), len(n)) {
			n[i], _ = strconv.Atoi(fields[i])
		}
		ranges = append(ranges, struct{ inside, outside, count int }{n[0], n[1], n[2]})
	}
	return ranges
}

// outside returns the host uid for a uid that this process sees, or -1 if there is none.
func (m uidRanges) outside(uid int) int {
	for _, r := range m {
		if uid >= r.inside && uid < r.inside+r.count {
			return r.outside + uid - r.inside
		}
	}
	return -1
}

// HostUID returns the host uid for a uid that this process sees, or -1 if unknown.
func HostUID(seen int) int { return uidMap().outside(seen) }

// CurrentUID returns this user's host uid, or the uid that this process sees if the host's is unknown.
func CurrentUID() int {
	if uid := HostUID(os.Getuid()); uid >= 0 {
		return uid
	}
	return os.Getuid()
}

// UserName is like Login, but for a host uid. Where uids are mapped, it returns only this user's
// name, because the container's list of users may give the same number to another user.
func UserName(uid int) string {
	switch {
	case uid == CurrentUID():
		return Login(os.Getuid())
	case HostUID(uid) != uid:
		return ""
	}
	return Login(uid)
}
