package runner

import (
	"maps"
	"time"

	"gpurun/runner/files"
	"gpurun/runner/sched"
)

// measure reads the metrics that the job file names. The GPUs wait for that, so it takes no longer
// than a hand-over may. Slow files are read when a command needs them.
func (at *attempt) measure(ev *sched.Ended) {
	if len(at.metrics) == 0 {
		return
	}
	limits, read := files.AtEnd(), make(chan files.Measured, 1)
	go func() {
		defer func() { _ = recover() }() // then there are no values
		read <- files.Measure(at.metrics, at.out.parts(), limits)
	}()
	select {
	case m := <-read:
		if ev.Metrics == nil {
			ev.Metrics = m.Values
		} else {
			maps.Copy(ev.Metrics, m.Values)
		}
		ev.Measured = m.Sums
	case <-time.After(time.Until(limits.Until)):
	}
}
