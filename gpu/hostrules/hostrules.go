// Package hostrules reads the file /etc/gpurun/host.yaml, in which the owner of the host sets rules
// for all runs, into gpu.HostRules.
//
// The file counts only if it and its folder belong to root and no one else can write to them. No
// content of the file can stop a run: invalid values are reported and ignored, so that an older
// gpurun works with a newer file.
package hostrules

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"time"

	"gpurun/gpu"
	"gpurun/jobspec/source"
	"gpurun/state/host"
)

// Variable is the environment variable that names another file, for containers and tests. It
// applies only if the host has no file.
const Variable = "GPURUN_HOST_RULES"

// A Place is where the rules of a host are, and who owns them.
type Place struct {
	Path  string
	Owner int // the only user who can write to the file and its folder
}

// Etc is the path of this host's rules.
var Etc = Place{Path: "/etc/gpurun/host.yaml"}

// A Reader reads the rules, and caches them until they change. It is not safe for concurrent use.
type Reader struct {
	place Place
	zone  *time.Location
	ids   *identities
	users []int // users looked up so far

	read   bool          // at least once
	stamps [3]host.Stamp // see stamps
	rules  gpu.HostRules // without the UIDs of users
}

// NewReader returns a reader of the rules at a place.
func NewReader(at Place) *Reader {
	return &Reader{place: at, zone: zone(), ids: &identities{}}
}

// zone returns the time zone of the host. It ignores TZ, which users can set.
func zone() *time.Location {
	data, err := os.ReadFile("/etc/localtime")
	if err == nil {
		if zone, err := time.LoadLocationFromTZData("host", data); err == nil {
			return zone
		}
	}
	return time.UTC
}

// Read returns the rules, with entries resolved for users and for the users of earlier calls. It also
// returns warnings, each once per version of the file.
func (r *Reader) Read(users ...int) (*gpu.HostRules, []string) {
	var warnings []string
	if now := stamps(r.place); !r.read || now != r.stamps {
		r.stamps = now
		warnings = r.reread()
		r.read = true
	}
	rules := r.rules
	rules.At = time.Now().In(r.zone)
	if len(rules.Users) > 0 {
		var more []string
		r.users = append(r.users, users...)
		slices.Sort(r.users)
		r.users = slices.Compact(r.users)
		rules.Users, more = r.ids.fill(rules, r.users)
		warnings = append(warnings, more...)
	}
	return &rules, warnings
}

// reread reads the file. If the file has become unreadable, the previous rules stay in force.
func (r *Reader) reread() (warnings []string) {
	path, data, err := r.open()
	rules, ok := *gpu.NoHostRules(), err == nil
	if err != nil {
		warnings = []string{err.Error()}
	} else if path != "" {
		var problems []source.Problem
		rules, problems, ok = parse(path, data, r.zone)
		for _, p := range problems {
			warnings = append(warnings, p.Error())
		}
	}
	if !ok && r.read && r.rules.File == path {
		warnings = append(warnings, path+" is now invalid: its previous rules still apply")
	} else {
		r.rules = rules
		r.ids.forget()
		if !ok {
			warnings = append(warnings, "ignoring the rules of this host")
		}
	}
	if path == r.place.Path && os.Getenv(Variable) != "" {
		warnings = append(warnings, Variable+" is ignored: this host has "+path)
	}
	return warnings
}

// open returns the path and content of the file that applies. The path is "" if there is none.
func (r *Reader) open() (path string, data []byte, err error) {
	data, err = trusted(r.place)
	if !errors.Is(err, os.ErrNotExist) {
		return r.place.Path, data, err
	}
	if path = os.Getenv(Variable); path == "" {
		return "", nil, nil
	}
	data, err = anyones(path)
	return path, data, err
}

// stamps returns the stamps of the files and the folder that the rules depend on.
func stamps(at Place) (s [3]host.Stamp) {
	for i, path := range []string{at.Path, filepath.Dir(at.Path), os.Getenv(Variable)} {
		s[i] = host.StampOf(path)
	}
	return s
}
