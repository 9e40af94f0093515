package batches

import (
	"encoding/json"
	"errors"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"

	"golang.org/x/sys/unix"

	"gpurun/jobspec"
	"gpurun/state"
	"gpurun/state/disk"
)

// Lines returns the options with which the last run of a file read that file. ok is false unless
// the run read it as a list of commands.
func (r *Reader) Lines(path string) (l jobspec.Lines, ok bool) {
	data := disk.Lines(path, r.StateDir)
	l.Kept = true
	return l, data != nil && json.Unmarshal(data, &l) == nil
}

// Options returns the options for reading files as their last runs did.
func (r *Reader) Options(paths []string) jobspec.Options {
	o := jobspec.Options{Lines: map[string]jobspec.Lines{}, Reading: r.reading}
	o.UserConfig, _ = UserConfig()
	for _, path := range paths {
		if l, ok := r.Lines(path); ok {
			o.Lines[path] = l
		}
	}
	return o
}

// Reload reads the job files of a batch as its last run did, but with the given -p values, or with
// none if the files no longer accept these.
func (r *Reader) Reload(given map[string]string, paths ...string) (*jobspec.Batch, error) {
	o := r.Options(paths)
	for _, name := range slices.Sorted(maps.Keys(given)) {
		o.Params = append(o.Params, name+"="+given[name])
	}
	b, err := r.Load(paths, o)
	if err != nil && len(given) > 0 {
		o.Params = nil
		return r.Load(paths, o)
	}
	return b, err
}

// UserConfig returns the path of the user's own defaults. HOME may belong to another user, as after
// su or sudo, so an unreadable file there is ignored.
func UserConfig() (path, warning string) {
	home := os.Getenv("XDG_CONFIG_HOME")
	dir := home
	if !filepath.IsAbs(dir) { // the XDG specification says to ignore a relative path
		home = os.Getenv("HOME")
		dir = filepath.Join(home, ".config")
	}
	if home == "" {
		return "", ""
	}
	path = filepath.Join(dir, "gpurun", "config.yaml")
	err := unix.Access(path, unix.R_OK) // opening it would block on a pipe
	if errors.Is(err, unix.ENOTDIR) {   // for example, HOME=/dev/null
		return "", ""
	}
	var st unix.Stat_t
	if errors.Is(err, fs.ErrPermission) && (unix.Stat(home, &st) != nil || int(st.Uid) != os.Getuid()) {
		return "", path + ": skipped because " + home + " belongs to another user"
	}
	return path, ""
}

// Lock opens and locks the state of job files.
func (r *Reader) Lock(paths []string, abandon string) (*disk.State, error) {
	s, err := disk.Open(paths, disk.Options{StateDir: r.StateDir, Abandon: abandon, Trace: trace, Over: endedElsewhere(), Go: r.Start})
	if err != nil {
		return nil, StateFailure(err)
	}
	return s, nil
}

// endedElsewhere returns a function that reports whether an attempt that may have run elsewhere has
// ended. recorded means that its end was recorded. cut means that its end was not recorded, but the
// cluster job around its run has ended and no process of the attempt is left.
func endedElsewhere() func(run state.Fact, dir, uniID string) (recorded, cut bool) {
	gone, look := map[string]bool{"": false}, Looker()
	return func(run state.Fact, dir, uniID string) (recorded, cut bool) {
		if _, asked := gone[run.Within]; !asked {
			gone[run.Within] = Allocation().Over(run.Within, Clusters)
		}
		found := look(dir, uniID)
		return found.Ended != nil, gone[run.Within] && found.Ended == nil && found.PID == 0
	}
}

// ReadHistory reads the ledgers without locking or creating anything.
func (r *Reader) ReadHistory(paths []string) (*state.History, []string, error) {
	h, warnings, err := disk.Load(paths, disk.Options{StateDir: r.StateDir})
	if err != nil {
		return nil, nil, StateFailure(err)
	}
	return h, warnings, nil
}
