package cli

import (
	"cmp"
	"errors"
	"io/fs"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"

	"gpurun/jobspec"
)

// options are what the command line and the machine say about reading job files.
func (a *app) options(b *batchFlags) jobspec.Options {
	return jobspec.Options{
		Format: b.Format, Config: b.Config, Flags: a.settings, UserConfig: userConfig(),
	}
}

// userConfig is the path of a user's own defaults, or "".
func userConfig() string {
	path, _ := findUserConfig()
	return path
}

// findUserConfig finds a user's own defaults. HOME may be that of somebody else, as
// after su or sudo: what cannot be read there is none of this user's.
func findUserConfig() (path, warning string) {
	dir, err := os.UserConfigDir()
	if err != nil {
		return "", ""
	}
	path = filepath.Join(dir, "gpurun", "config.yaml")
	_, err = os.ReadFile(path)
	if home := cmp.Or(os.Getenv("XDG_CONFIG_HOME"), os.Getenv("HOME")); errors.Is(err, fs.ErrPermission) && !ownFolder(home) {
		return "", path + " was not read: " + home + " belongs to another user"
	}
	return path, ""
}

func (a *app) warnOfUserConfig() {
	if _, warning := findUserConfig(); warning != "" {
		a.warn(warning)
	}
}

// ownFolder reports whether a folder belongs to this user.
func ownFolder(path string) bool {
	var st unix.Stat_t
	return unix.Stat(path, &st) == nil && int(st.Uid) == os.Getuid()
}

// load reads the files of the command line; all their problems are one failure.
func (a *app) load(b *batchFlags) (*jobspec.Batch, error) {
	paths, err := b.paths()
	if err != nil {
		return nil, err
	}
	a.warnOfUserConfig()
	o := a.options(b)
	o.Lint = true
	batch, ps := jobspec.Load(paths, o)
	if len(ps) > 0 {
		return nil, problems(ps)
	}
	return batch, nil
}

// maxWarnings bounds what check alone shows in full.
const maxWarnings = 5

// warnings shows the first warnings of a batch, and says where the others are.
func (a *app) warnings(b *jobspec.Batch) {
	for i, p := range b.Warnings {
		if i == maxWarnings {
			a.warn(count(len(b.Warnings)-i, "more warning") + ": gpurun check shows all")
			return
		}
		a.warn(place(p) + p.Message())
		a.hint(p.Hint)
	}
}

// realPaths are the files of a batch as the state knows them.
func realPaths(b *jobspec.Batch) []string {
	paths := make([]string, len(b.Files))
	for i, f := range b.Files {
		paths[i] = f.Real
	}
	return paths
}
