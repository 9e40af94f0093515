package state

// A CauseCode is the reason an attempt, or a job that never started, did not succeed. Ledgers and
// other programs rely on these strings: never change them.
type CauseCode string

const (
	CauseExit          CauseCode = "exit"          // a command failed with a nonzero exit code
	CauseSignal        CauseCode = "signal"        // a signal that gpurun did not send ended it
	CauseNotFound      CauseCode = "not_found"     // a command does not exist or cannot be executed (exit 126, 127)
	CauseOOMGPU        CauseCode = "oom_gpu"       // the GPU ran out of memory
	CauseOOMHost       CauseCode = "oom_host"      // the host ran out of memory and the kernel killed the job
	CauseOOMNeighbour  CauseCode = "oom_neighbour" // the GPU ran out of memory because another process used the job's share
	CauseTimeout       CauseCode = "timeout"
	CauseStalled       CauseCode = "stalled"        // it made no progress for too long
	CausePruned        CauseCode = "pruned"         // it was worse than comparable jobs, or needs a job that was pruned
	CauseLost          CauseCode = "lost"           // how it ended is unknown
	CauseOutputMissing CauseCode = "output_missing" // it exited with 0, but without an output that it declares
	CauseInputMissing  CauseCode = "input_missing"  // no file matches one of its inputs
	CauseLeftRunning   CauseCode = "left_running"   // its commands left processes in the background
	CauseStrayGPU      CauseCode = "stray_gpu"      // it used a GPU that it was not given
	CauseStartFailed   CauseCode = "start_failed"   // it could not be started
	CauseNeedFailed    CauseCode = "need_failed"    // a job that it needs ended without success
	CauseCancelled     CauseCode = "cancelled"      // a user cancelled this job
	CauseInterrupted   CauseCode = "interrupted"    // its run was stopped
	CauseFailFast      CauseCode = "fail_fast"      // another job failed, and fail_fast is set
	CausePreempted     CauseCode = "preempted"      // it was preempted by another run, or the run's hours ended
	CauseResized       CauseCode = "resized"        // it restarts with a different number of GPUs
	CauseGPUTaken      CauseCode = "gpu_taken"      // a user took its GPU away (gpurun stop --gpu)
	CauseBreaker       CauseCode = "breaker"        // it did not start because similar jobs failed with the same error
)

// stopCauses maps the reason for a stop to the cause of the attempt's end.
var stopCauses = map[string]CauseCode{
	WhyCancelled: CauseCancelled, WhyInterrupted: CauseInterrupted, WhyTimeout: CauseTimeout, WhyStalled: CauseStalled, WhyPruned: CausePruned, WhyFailFast: CauseFailFast,
	WhyGPU: CauseGPUTaken, WhyStray: CauseStrayGPU, WhyPreempted: CausePreempted, WhyResize: CauseResized,
}

// StopCause returns the cause that follows from the reason for a stop, or "" if there is none.
func StopCause(why string) CauseCode { return stopCauses[why] }

// CauseCode returns why the attempt that ended with f did not succeed, or "" for a success. Ledgers
// of older versions lack the code; for them, it is derived from other fields.
func (f *Fact) CauseCode() CauseCode {
	switch {
	case f.State == Succeeded || f.Kind != KindEnd:
		return ""
	case f.Cause != "":
		return f.Cause
	case f.ErrorType == ErrOOM:
		return CauseOOMGPU
	case f.Unrunnable():
		return CauseNotFound
	case f.ErrorType != "":
		return CauseCode(f.ErrorType) // exit, signal, timeout, stalled, lost, stray_gpu, left_running
	case stopCauses[f.Why] != "":
		return stopCauses[f.Why]
	}
	return CauseCode(f.State) // cancelled, interrupted
}

// Unrunnable reports whether a command was not found or could not be executed, which shells report
// with exit status 127 and 126.
func (f *Fact) Unrunnable() bool {
	return f.ErrorType == ErrExit && f.ExitCode != nil && (*f.ExitCode == 126 || *f.ExitCode == 127)
}
