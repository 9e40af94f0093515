package state

import (
	"gpurun/gpu"
)

// A Demand is a job that used far more or far less GPU memory than it requested.
type Demand struct {
	Job         string
	Asked, Peak gpu.Bytes // on each GPU
	Readings    int       // number of readings behind Peak
}
