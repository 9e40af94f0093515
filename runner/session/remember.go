package session

import (
	"slices"
	"strings"
	"time"

	"gpurun/state/disk"
)

// remember has the run's files listed by gpurun ls. It neither slows nor fails the run.
func (r *Run) remember() {
	var list []disk.Used
	for i, f := range r.Batch.Files {
		list = append(list, disk.Used{File: f.Real, Dir: r.State.Dir(i), StateDir: Absolute(r.StateDir), Host: disk.Host().Host, Started: time.Now().UTC()})
	}
	slices.Reverse(list) // so that the first is the newest
	done := make(chan struct{})
	r.Go(func() {
		defer close(done)
		if err := disk.Remember(list...); err != nil {
			r.Log.Info().Err(err).Msg("not listed for gpurun ls")
		}
	})
	r.Later(func() { <-done })
}

// Absolute returns a path that holds in every folder; "" stays.
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
