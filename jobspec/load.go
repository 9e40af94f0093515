package jobspec

import "gpurun/gpu"

// Load reads the job files of one batch. With any problem there is no batch.
func Load(paths []string, opts Options) (*Batch, []Problem) { panic("unwritten") }

// Render puts every variable in. It fails only where a path names an unset $VAR
// or the base of a config file cannot be read or lacks a key.
func (b *Batch) Render(j *Job, rt Runtime) (Rendered, error) { panic("unwritten") }

// CheckDevices finds jobs, among those that wanted says would run, that no
// device here could ever take. devs are all managed devices.
func (b *Batch) CheckDevices(devs []gpu.Device, wanted func(id int) bool) []Problem {
	panic("unwritten")
}
