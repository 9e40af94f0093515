package state

// A CauseCode says why an attempt, or a job without one, ended without success. Ledgers and
// programs rely on the words: never change them.
type CauseCode string

// Why attempts end without success.
const (
	CauseExit          CauseCode = "exit"           // a command failed, by its exit code
	CauseSignal        CauseCode = "signal"         // a signal ended it that gpurun did not send
	CauseNotFound      CauseCode = "not_found"      // a command does not exist or cannot be executed (exit 126, 127)
	CauseOOMGPU        CauseCode = "oom_gpu"        // GPU memory ran out
	CauseOOMHost       CauseCode = "oom_host"       // the kernel killed it because host memory ran out
	CauseOOMNeighbour  CauseCode = "oom_neighbour"  // GPU memory ran out because somebody else took what it was promised
	CauseTimeout       CauseCode = "timeout"        //
	CauseStalled       CauseCode = "stalled"        // it did nothing for too long
	CausePruned        CauseCode = "pruned"         // it was behind others that differ in a few parameters, or needs a job that was
	CauseLost          CauseCode = "lost"           // how it ended is unknown
	CauseOutputMissing CauseCode = "output_missing" // it exited with 0, but without an output that it declares
	CauseInputMissing  CauseCode = "input_missing"  // an input matches no file
	CauseLeftRunning   CauseCode = "left_running"   // its commands left processes in the background
	CauseStrayGPU      CauseCode = "stray_gpu"      // it used a GPU that it was not given
	CauseStartFailed   CauseCode = "start_failed"   // it could not be started
	CauseNeedFailed    CauseCode = "need_failed"    // a job that it needs ended without success
	CauseCancelled     CauseCode = "cancelled"      // by a person, this job alone
	CauseInterrupted   CauseCode = "interrupted"    // its run was stopped
	CauseFailFast      CauseCode = "fail_fast"      // another job failed, and fail_fast is set
	CausePreempted     CauseCode = "preempted"      // it gave way to another run, or the hours ended
	CauseResized       CauseCode = "resized"        // it starts again on another number of GPUs
	CauseGPUTaken      CauseCode = "gpu_taken"      // a person took its GPU away (gpurun stop --gpu)
	CauseBreaker       CauseCode = "breaker"        // jobs like it failed with the same error, so it was not started
)

// ofStop are the causes of ends by why the attempt was stopped.
var ofStop = map[string]CauseCode{
	WhyCancelled: CauseCancelled, WhyInterrupted: CauseInterrupted, WhyTimeout: CauseTimeout, WhyStalled: CauseStalled, WhyPruned: CausePruned, WhyFailFast: CauseFailFast,
	WhyGPU: CauseGPUTaken, WhyStray: CauseStrayGPU, WhyPreempted: CausePreempted, WhyResize: CauseResized,
}

// StopCause returns the cause of an end by why the attempt was stopped.
func StopCause(why string) CauseCode { return ofStop[why] }

// CauseCode returns why the attempt that f ends did so; "" for a success. Ledgers of older
// versions do not have the code, but what it was decided by.
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
	case ofStop[f.Why] != "":
		return ofStop[f.Why]
	}
	return CauseCode(f.State) // cancelled, interrupted
}

// Unrunnable reports whether a command could not be executed or does not exist: that is
// what 126 and 127 mean.
func (f *Fact) Unrunnable() bool {
	return f.ErrorType == ErrExit && f.ExitCode != nil && (*f.ExitCode == 126 || *f.ExitCode == 127)
}
