package disk

import (
	"gpurun/state"
	"gpurun/state/jsonline"
)

// appendFact appends a fact's line, without newline, byte for byte as encoding/json
// would write it.
func appendFact(b []byte, f *state.Fact) ([]byte, error) {
	o := jsonline.Append(b)
	o.String("kind", string(f.Kind))
	o.Time("time", f.Time)
	appendRun(o, f)
	o.If(f.Job != "").String("job", f.Job)
	o.If(f.Key != "").String("key", f.Key)
	o.If(f.UniID != "").String("uni_id", f.UniID)
	o.If(f.Attempt != 0).Int("attempt", int64(f.Attempt))
	o.If(len(f.Params) > 0).Map("params", f.Params)
	o.If(len(f.Commands) > 0).Strings("commands", f.Commands)
	o.If(len(f.Traits) > 0).Map("traits", f.Traits)
	if len(f.GPUs) > 0 {
		o.Value("gpus", f.GPUs)
	}
	if len(f.GPUUUIDs) > 0 {
		o.Value("gpu_uuids", f.GPUUUIDs)
	}
	o.If(f.Memory != 0).Int("memory_bytes", int64(f.Memory))
	o.If(f.Log != "").String("log", f.Log)
	if len(f.Inputs) > 0 {
		o.Value("inputs", f.Inputs)
	}
	o.If(f.Needs != "").String("needs", f.Needs)
	o.If(f.PID != 0).Int("pid", int64(f.PID))
	o.If(f.PIDStart != 0).Uint("pid_start", f.PIDStart)
	o.If(f.Why != "").String("why", f.Why)
	o.If(f.State != "").String("state", string(f.State))
	if f.ExitCode != nil {
		o.Int("exit_code", int64(*f.ExitCode))
	}
	o.If(f.Signal != "").String("signal", f.Signal)
	o.If(f.ErrorType != "").String("error_type", f.ErrorType)
	o.If(f.Reason != "").String("reason", f.Reason)
	o.If(f.Line != "").String("line", f.Line)
	o.If(f.Seconds != 0).Float("seconds", f.Seconds)
	o.If(f.PeakMemory != 0).Int("peak_gpu_memory_bytes", int64(f.PeakMemory))
	o.If(f.PeakReadings != 0).Int("peak_readings", int64(f.PeakReadings))
	if len(f.Metrics) > 0 {
		o.Value("metrics", f.Metrics)
	}
	o.If(f.By != "").String("by", f.By)
	return o.End()
}

// appendRun appends the fields of a run fact.
func appendRun(o *jsonline.Object, f *state.Fact) {
	o.If(f.Version != 0).Int("version", int64(f.Version))
	o.If(f.Gpurun != "").String("gpurun", f.Gpurun)
	o.If(f.MachineID != "").String("machine_id", f.MachineID)
	o.If(f.Host != "").String("host", f.Host)
	o.If(f.BootID != "").String("boot_id", f.BootID)
	o.If(f.PIDNS != "").String("pid_ns", f.PIDNS)
	o.If(f.Commit != "").String("git_commit", f.Commit)
	o.If(f.Dirty).Bool("git_dirty", f.Dirty)
	o.If(len(f.Settings) > 0).Map("settings", f.Settings)
	o.If(f.Sim != "").String("sim", f.Sim)
}
