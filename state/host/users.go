package host

import (
	"os"
	"strconv"
)

// Users returns the users with at least one process visible from here.
func Users() []int {
	entries, err := os.ReadDir("/proc")
	if err != nil {
		return nil
	}
	var uids []int
	seen := map[int]bool{}
	for _, e := range entries {
		pid, err := strconv.Atoi(e.Name())
		if err != nil {
			continue
		}
		if uid, ok := Owner(pid); ok && !seen[uid] {
			seen[uid] = true
			uids = append(uids, uid)
		}
	}
	return uids
}
