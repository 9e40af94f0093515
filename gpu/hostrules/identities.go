package hostrules

import (
	"cmp"
	"errors"
	"fmt"
	"os"
	"os/user"
	"slices"
	"strconv"
	"strings"
	"time"

	"gpurun/gpu"
	"gpurun/state/host"
)

// identities determine which users the entries of a file apply to.
type identities struct {
	groups map[int][]string  // gids by uid
	gids   map[string]string // by group name; "" if the group was not found
	told   map[string]bool   // warnings already reported
	silent time.Time         // when a directory service last failed to respond
}

// forget clears the cache, so that all users are looked up again for a new version of the file.
func (i *identities) forget() {
	i.groups, i.gids, i.told = map[int][]string{}, map[string]string{}, map[string]bool{}
}

// directory explains why a user or a group may not be found.
const directory = "only a gpurun built with cgo can query a directory such as LDAP"

// fill returns the entries of a file, with the UIDs of the users that they apply to.
func (i *identities) fill(h gpu.HostRules, users []int) (entries []gpu.UserEntry, warnings []string) {
	warn := func(format string, args ...any) {
		if text := fmt.Sprintf(format, args...); !i.told[text] {
			i.told[text] = true
			warnings = append(warnings, h.File+": "+text)
		}
	}
	entries = slices.Clone(h.Users)
	for n := range entries {
		e := &entries[n]
		for _, uid := range users {
			if i.means(e.Key, uid, warn) {
				e.UIDs = append(e.UIDs, uid)
			}
		}
	}
	return entries, warnings
}

// means reports whether an entry applies to a user. The entry's key may be a number instead of a
// name.
func (i *identities) means(key string, uid int, warn func(format string, args ...any)) bool {
	group, ok := strings.CutPrefix(key, "@")
	if !ok {
		name := host.UserName(uid)
		if name == "" && uid == host.CurrentUID() {
			warn("users: entries by name do not apply to you, because uid %d has no name; %s", uid, directory)
		}
		return key == name || key == strconv.Itoa(uid)
	}
	gid := i.gid(group)
	if gid == "" {
		warn("users: ignoring %s: no such group here; %s", key, directory)
		return false
	}
	gids, err := i.groupsOf(uid)
	if err != nil {
		warn("users: cannot find the groups of %s: %v; %s", cmp.Or(host.Login(uid), "uid "+strconv.Itoa(uid)), err, directory)
	}
	return slices.Contains(gids, gid)
}

// gid returns the number of a group, or "".
func (i *identities) gid(group string) string {
	if gid, known := i.gids[group]; known {
		return gid
	}
	g, err := ask(i, func() (*user.Group, error) { return user.LookupGroup(group) })
	switch _, notNumber := strconv.ParseUint(group, 10, 32); {
	case err == nil:
		i.gids[group] = g.Gid
	case notNumber == nil:
		i.gids[group] = group
	case !errors.Is(err, errSilent):
		i.gids[group] = ""
	}
	return i.gids[group]
}

// groupsOf returns the numbers of a user's groups. For this user, they include the groups of the
// process, which were set at login and are known even if gpurun cannot query a directory service.
func (i *identities) groupsOf(uid int) ([]string, error) {
	if gids, known := i.groups[uid]; known {
		return gids, nil
	}
	gids, err := ask(i, func() ([]string, error) {
		u, err := user.LookupId(strconv.Itoa(uid))
		if err != nil {
			return nil, err
		}
		return u.GroupIds()
	})
	if uid == host.CurrentUID() {
		own, _ := os.Getgroups()
		for _, gid := range append(own, os.Getgid()) {
			gids = append(gids, strconv.Itoa(gid))
		}
	}
	if !errors.Is(err, errSilent) {
		i.groups[uid] = gids
	}
	return gids, err
}

// A directory service that does not respond within askLimit is not queried again for askPause.
const (
	askLimit = 2 * time.Second
	askPause = time.Minute
)

var errSilent = errors.New("no directory service responds")

func ask[T any](i *identities, question func() (T, error)) (t T, err error) {
	type answer struct {
		T   T
		err error
	}
	if time.Since(i.silent) < askPause {
		return t, errSilent
	}
	answers := make(chan answer, 1)
	go func() {
		t, err := question()
		answers <- answer{t, err}
	}()
	select {
	case a := <-answers:
		return a.T, a.err
	case <-time.After(askLimit):
		i.silent = time.Now()
		return t, errSilent
	}
}
