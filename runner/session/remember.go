package session

import (
	"slices"
	"strings"
	"time"

	"gpurun/state/disk"
)

// remember adds the run's files to the list that gpurun ls shows. It neither delays nor fails the
// run.
func (r *Run) remember() {
	var list []disk.Used
	for i, f := range r.Batch.Files {
		list = append(list, disk.Used{File: f.Real, Dir: r.State.Dir(i), StateDir: Absolute(r.StateDir), Host: disk.Host().Host, Started: time.Now().UTC()})
	}
	slices.Reverse(list) // newest first
	done := make(chan struct{})
	r.Go(func() {
		defer close(done)
		if err := disk.Remember(list...); err != nil {
			r.Log.Info().Err(err).Msg("gpurun ls will not list this run")
		}
	})
	r.OnClose(func() { <-done })
}

// Absolute returns path as an absolute path, or "" if path is "".
func Absolute(path string) string {
	if path == "" {
		return ""
	}
	real, err := disk.RealPath(path)
	if err != nil {
		return strings.TrimSpace(path)
	}
	return real
}
