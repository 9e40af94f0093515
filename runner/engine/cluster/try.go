package cluster

import (
	"errors"
	"time"

	"gpurun/runner/engine"
)

// A Trial asks a cluster about a launch without submitting it.
type Trial struct {
	Args  []string      // submission arguments; launches with the same arguments are submitted together
	Limit time.Duration // the cluster may end the job after this time; 0 for the cluster's own limit
}

// Demands returns the trial for a launch. It returns an error if a key has no counterpart on the
// cluster.
func Demands(w Dialect, l *engine.Launch) (t Trial, err error) {
	a := jobRequestOf(l)
	t.Limit = a.Limit
	t.Args, err = w.Args(a)
	return t, err
}

// Try asks the cluster when the job would begin, or why it refuses the job.
func (t Trial) Try(w Dialect) (begins string, refused Refusal, err error) {
	if why, _ := w.Limits(t.Args).Run(); why != "" { // after an error, the limits are unknown, so try anyway
		return "", Never, errors.New(why)
	}
	try := w.Try(t.Args)
	out, notes, err := try.run()
	if err != nil {
		_, refused, why := w.Answer("", notes)
		if why != "" {
			err = errors.New(why)
		}
		return "", refused, err
	}
	begins, err = try.Read(out + notes)
	return begins, 0, err
}
