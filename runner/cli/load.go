package cli

import (
	"cmp"
	"errors"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"

	"golang.org/x/sys/unix"

	"gpurun/jobspec"
	"gpurun/runner"
)

// flagged returns how to read job files, from the command line and the machine.
func (a *app) flagged(b *batchFlags, paths []string) (o jobspec.Options, err error) {
	o = a.options(paths)
	o.Command, o.Format, o.Config, o.Params, o.Flags = a.command, b.Format, b.Config, b.Param, a.settings
	o.Lines, err = a.lists(b, paths)
	return o, err
}

// options returns how to read job files that have run, as their last runs did.
func (r *reader) options(paths []string) jobspec.Options {
	o := jobspec.Options{Lines: map[string]jobspec.Lines{}, Reading: r.reading}
	o.UserConfig, _ = userConfig()
	for _, path := range paths {
		if l, ok := r.lines(path); ok {
			o.Lines[path] = l
		}
	}
	return o
}

// loadAgain reads the job files of a batch that has run, as it did: with the parameters that its
// command line gave, unless the files have changed too much for that.
func (r *reader) loadAgain(given map[string]string, paths ...string) (*jobspec.Batch, error) {
	o := r.options(paths)
	for _, name := range slices.Sorted(maps.Keys(given)) {
		o.Params = append(o.Params, name+"="+given[name])
	}
	b, err := r.jobs(paths, o)
	if err != nil && len(given) > 0 {
		o.Params = nil
		return r.jobs(paths, o)
	}
	return b, err
}

// userConfig finds the user's own defaults. HOME may be somebody else's, as after su or
// sudo: an unreadable file there is not this user's.
func userConfig() (path, warning string) {
	dir, err := os.UserConfigDir()
	if err != nil {
		return "", ""
	}
	path = filepath.Join(dir, "gpurun", "config.yaml")
	_, err = os.ReadFile(path)
	home := cmp.Or(os.Getenv("XDG_CONFIG_HOME"), os.Getenv("HOME"))
	var st unix.Stat_t
	if errors.Is(err, fs.ErrPermission) && (unix.Stat(home, &st) != nil || int(st.Uid) != os.Getuid()) {
		return "", path + " was not read: " + home + " belongs to another user"
	}
	return path, ""
}

// load reads the job files on the command line, and has w watch them; all their problems form
// one failure.
func (a *app) load(b *batchFlags, w *fileWatch) (*jobspec.Batch, error) {
	paths, err := a.paths(b)
	if err != nil {
		return nil, err
	}
	if _, warning := userConfig(); warning != "" {
		a.warn(warning)
	}
	o, err := a.flagged(b, paths)
	if err != nil {
		return nil, err
	}
	o.Lint = true
	batch, err := w.load(paths, o, a.jobs)
	if m := (*runner.Mistake)(nil); errors.As(err, &m) {
		return nil, atStart(err)
	}
	return batch, err
}

// maxWarnings bounds the warnings shown; only check shows all.
const maxWarnings = 5

// warnings shows a batch's first warnings, and how to see the others.
func (a *app) warnings(b *jobspec.Batch) {
	list := gathered(b.Warnings)
	for i, p := range list {
		if i == maxWarnings {
			a.warn(count(len(list)-i, "more warning") + ": gpurun check shows all")
			return
		}
		a.warn(p.Place() + p.Message())
		a.hint(p.Hint)
	}
}

// realPaths returns a batch's files as the state knows them.
func realPaths(b *jobspec.Batch) []string {
	return names(len(b.Files), func(i int) string { return b.Files[i].Real })
}
