package state

import (
	"time"

	"gpurun/gpu"
)

// An End describes how an attempt ended, or that it never began. When an End is recorded, no process
// of the attempt is left, except those in Stuck. The JSON of an End is part of attempt records, which
// later versions must read.
type End struct {
	ExitCode    int           `json:"exit"`             // of the command that ended it; -1 if killed by a signal or unknown
	Signal      string        `json:"signal,omitempty"` // "SIGKILL"
	Why         string        `json:"why,omitempty"`    // why it was stopped (Why…), recorded before the first signal
	Started     time.Time     `json:"started"`
	At          time.Time     `json:"ended,omitzero"`         // when the last command ended; zero if unknown
	Elapsed     time.Duration `json:"elapsed_ns,omitempty"`   // in CLOCK_BOOTTIME
	Aside       bool          `json:"aside,omitempty"`        // processes other than that of its command were asked to save its work
	OOMKilled   bool          `json:"oom_killed,omitempty"`   // a SIGKILL that gpurun did not send ended it, and the kernel's OOM kill count rose
	Lost        bool          `json:"lost,omitempty"`         // its exit status is unknown
	Void        bool          `json:"void,omitempty"`         // with Lost: it never executed anything
	Err         string        `json:"error,omitempty"`        // why it could not be started; if Why is set, more about the stop
	Report      string        `json:"report,omitempty"`       // of a block's script: "normal_exit", "abnormal_exit" or ""
	LeftOver    int           `json:"left_over,omitempty"`    // processes ended by the engine after the last command
	LeftRunning string        `json:"left_running,omitempty"` // why its leftover processes count as a failure
	Stuck       []int         `json:"stuck,omitempty"`        // PIDs that survived SIGKILL for 30 s; they may hold GPUs
	Uncharged   string        `json:"uncharged,omitempty"`    // why the failure is not the job's fault, so it spends no retry
	Displaced   bool          `json:"displaced,omitempty"`    // with Uncharged: it was preempted or its node was unfit, which may happen any number of times

	PeakHost gpu.Bytes  `json:"peak_host_memory_bytes,omitempty"` // of its largest process; 0 if unknown
	Peaks    []gpu.Peak `json:"peaks,omitempty"`                  // on each GPU, if only the engine can read it
	Readings int        `json:"peak_readings,omitempty"`          // number of readings that showed the attempt's use

	// The fields below are not written to the record.
	Refused bool   `json:",omitempty"` // with Err: the cluster refuses the job and would refuse it again
	NoRoom  bool   `json:",omitempty"` // with Err: the disk is full, so nothing ran
	Unsaved string `json:",omitempty"` // why its status record could not be written
}
