package runner

import (
	"maps"
	"time"

	"gpurun/runner/files"
	"gpurun/runner/sched"
)

// measure reads the values of the job file's metrics. The GPUs stay claimed meanwhile, so measure
// has a time limit; commands read slow files later, on demand.
func (at *attempt) measure(ev *sched.Ended) {
	if len(at.metrics) == 0 {
		return
	}
	limits, read := files.AtEnd(), make(chan files.Measured, 1)
	go func() {
		defer func() { _ = recover() }() // there are no values after a panic
		read <- files.Measure(at.metrics, at.out.found(), limits)
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
