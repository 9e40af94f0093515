package host

import (
	"errors"
	"os"
	"strconv"
	"strings"
	"sync"
)

// In a rootless container, the kernel shows other uids than the host has. What runs tell
// each other is about the host's.

// uidMap is /proc/self/uid_map: which uids are which on the host.
var uidMap = sync.OnceValue(func() uidRanges {
	b, err := os.ReadFile("/proc/self/uid_map")
	if _, missing := os.Stat("/proc/self"); errors.Is(err, os.ErrNotExist) && missing == nil {
		return uidRanges{{count: 1 << 32}} // a kernel that cannot translate
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

// outside returns the host's uid for one that this process sees, -1 if there is none.
func (m uidRanges) outside(uid int) int {
	for _, r := range m {
		if uid >= r.inside && uid < r.inside+r.count {
			return r.outside + uid - r.inside
		}
	}
	return -1
}

// HostUID returns the host's uid for one that this process sees; -1 if that is unknown.
func HostUID(seen int) int { return uidMap().outside(seen) }

// UID returns this user's uid on the host. If known is false, it is what this process sees.
func UID() (uid int, known bool) {
	if uid = HostUID(os.Getuid()); uid >= 0 {
		return uid, true
	}
	return os.Getuid(), false
}

// Me returns this user's uid on the host, as far as it is known.
func Me() int {
	uid, _ := UID()
	return uid
}

// UserName is Login for a uid of the host. Where uids are translated, only this user's name
// is known: the same number may be somebody else in the container's list of users.
func UserName(uid int) string {
	switch {
	case uid == Me():
		return Login(os.Getuid())
	case HostUID(uid) != uid:
		return ""
	}
	return Login(uid)
}
