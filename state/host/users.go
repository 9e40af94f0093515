package host

import (
	"os"
	"os/user"
	"slices"
	"strconv"
	"sync"
	"time"
)

// Users returns the host uids of the users who have at least one process visible from here.
func Users() []int {
	entries, err := os.ReadDir("/proc")
	if err != nil {
		return nil
	}
	var uids []int
	for _, e := range entries {
		pid, err := strconv.Atoi(e.Name())
		if err != nil {
			continue
		}
		seen, ok := Owner(pid)
		if uid := HostUID(seen); ok && uid >= 0 && !slices.Contains(uids, uid) {
			uids = append(uids, uid)
		}
	}
	return uids
}

var logins sync.Map // by uid

// Login returns a user's login name, or "" if there is none or it is not known yet. The first call
// for each user waits only briefly for a directory service to respond; later calls do not wait.
func Login(uid int) string {
	if name, known := logins.LoadOrStore(uid, ""); known {
		return name.(string)
	}
	found := make(chan struct{})
	go func() {
		defer close(found)
		if u, err := user.LookupId(strconv.Itoa(uid)); err == nil {
			logins.Store(uid, u.Username)
		}
	}()
	select {
	case <-found:
	case <-time.After(200 * time.Millisecond):
	}
	name, _ := logins.Load(uid)
	return name.(string)
}
