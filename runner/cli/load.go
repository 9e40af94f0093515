package cli

import (
	"os"
	"path/filepath"

	"gpurun/jobspec"
)

// options are what the command line and the machine say about reading job files.
func (a *app) options(b *batchFlags) jobspec.Options {
	return jobspec.Options{
		Format: b.Format, Config: b.Config, Flags: a.settings, UserConfig: userConfig(),
		CPUs: cores(), Memory: hostMemory(),
	}
}

// userConfig is the path of a user's own defaults, or "".
func userConfig() string {
	dir, err := os.UserConfigDir()
	if err != nil {
		return ""
	}
	return filepath.Join(dir, "gpurun", "config.yaml")
}

// load reads the files of the command line; all their problems are one failure.
func (a *app) load(b *batchFlags) (*jobspec.Batch, error) {
	paths, err := b.paths()
	if err != nil {
		return nil, err
	}
	batch, ps := jobspec.Load(paths, a.options(b))
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
		a.warn(place(p) + p.Text)
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
