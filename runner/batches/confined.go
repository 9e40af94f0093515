package batches

import (
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/bmatcuk/doublestar/v4"

	"gpurun/jobspec"
	"gpurun/runner/files"
	"gpurun/state/disk"
	"gpurun/state/host"
)

// Load reads job files. In a confined command, the files must belong to this user alone, and may
// name only paths that the command may access.
func (r *Reader) Load(paths []string, o jobspec.Options) (*jobspec.Batch, error) {
	if !host.Confined() {
		return jobspec.Load(paths, o)
	}
	for _, path := range paths {
		if err := r.Reachable(path); err != nil {
			return nil, jobspec.Report([]jobspec.Problem{{File: path, Text: err.Error(), Hint: askUser}})
		}
	}
	var read []string
	o.Reading = func(path string) { read = append(read, path) }
	b, err := jobspec.Load(paths, o)
	for _, path := range read {
		if err := disk.CheckOwnership(path); err != nil {
			return nil, jobspec.Report([]jobspec.Problem{{File: path, Text: err.Error(), Hint: askUser}})
		}
	}
	if err == nil {
		list := outside(b)
		if len(list) == 0 {
			return b, nil
		}
		return nil, jobspec.Report(list)
	}
	list := jobspec.Problems(err)
	for i := range list {
		if list[i].File == o.UserConfig { // these lines may be private
			list[i] = jobspec.Problem{File: list[i].File, Text: "the user's own defaults contain an error", Hint: "ask the user to run gpurun check"}
		}
	}
	return nil, jobspec.Report(list)
}

const askUser = "ask the user to run gpurun directly, or to restart this server with another --root"

// Reachable returns nil if a confined command may use a job file and its state folder, or else the
// reason.
func (r *Reader) Reachable(file string) error {
	if !host.Confined() {
		return nil
	}
	err := host.Within(file)
	if err == nil {
		err = host.Within(disk.Folder(file, r.StateDir))
	}
	if err == nil {
		err = disk.CheckOwnership(file)
	}
	if err != nil {
		return &Failure{Code: ExitUsage, Text: err.Error(), Hint: askUser, Err: err}
	}
	return nil
}

// maxOutside is how many paths are reported.
const maxOutside = 200

// outside reports the paths of jobs' files that a confined command must not access.
func outside(b *jobspec.Batch) []jobspec.Problem {
	var found []jobspec.Problem
	folders := map[string]error{}
	within := func(path string) error {
		if files.IsGlob(path) {
			path, _ = doublestar.SplitPattern(path)
		}
		dir := filepath.Dir(path)
		err, known := folders[dir]
		if !known {
			err = host.Within(dir)
			folders[dir] = err
		}
		if fi, e := os.Lstat(path); err != nil || e == nil && fi.Mode()&fs.ModeSymlink != 0 {
			return host.Within(path)
		}
		return nil
	}
	for i := range b.Jobs {
		j := &b.Jobs[i]
		r, err := b.Paths(j, jobspec.Runtime{Attempt: 1})
		if err != nil {
			continue // the run reports the reason
		}
		check := func(key string, paths ...string) {
			for _, path := range paths {
				if path != "" && len(found) < maxOutside && within(path) != nil {
					found = append(found, jobspec.Problem{
						File: b.Files[j.File].Path, Line: j.Line(), Text: fmt.Sprintf("job %q: %s: %v", j.Name, key, &host.OutsideError{Path: path}), Hint: askUser,
					})
				}
			}
		}
		check("work_dir", r.WorkDir)
		check("log", r.Stdout, r.Stderr)
		check("inputs", r.Inputs...)
		check("outputs", r.Outputs...)
		for _, m := range r.Metrics {
			check("metrics", m.Path)
		}
	}
	return found
}
