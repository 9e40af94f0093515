package cli

import (
	"gpurun/runner"
	"gpurun/runner/report"
)

// recordGPUs returns what keeps the readings of the GPUs for the report; nothing, without
// GPUs. A run goes on as if it were not there.
func (r *run) recordGPUs() []runner.Sink {
	if r.prober == nil {
		return nil
	}
	rec := report.NewRecorder(r.state.Gauges(), r.goSafely, func(err error) {
		r.log.Warn().Err(err).Msg("the readings of the GPUs cannot be kept for the report")
	})
	r.later(rec.Close)
	return []runner.Sink{rec}
}
