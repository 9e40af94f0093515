package state

import (
	"time"

	"gpurun/gpu"
)

// An End is how an attempt ended: no process of it is left, or it never began. Its JSON is part
// of the records of attempts, which later versions read.
type End struct {
	ExitCode    int           `json:"exit"`             // of the command that ended it; -1 if killed by a signal or unknown
	Signal      string        `json:"signal,omitempty"` // "SIGKILL"
	Why         string        `json:"why,omitempty"`    // why it was stopped (Why…), recorded before the first signal
	Started     time.Time     `json:"started"`
	At          time.Time     `json:"ended,omitzero"`         // when the last command ended
	Elapsed     time.Duration `json:"elapsed_ns,omitempty"`   // in CLOCK_BOOTTIME
	OOMKilled   bool          `json:"oom_killed,omitempty"`   // a SIGKILL that gpurun did not send ended it, and the kernel's OOM kill count rose
	Lost        bool          `json:"lost,omitempty"`         // its exit status is unknown
	Void        bool          `json:"void,omitempty"`         // with Lost: it never executed anything
	Err         string        `json:"error,omitempty"`        // why it could not be started; with Why, who else ended it
	Report      string        `json:"report,omitempty"`       // of a block's script: "normal_exit", "abnormal_exit" or ""
	LeftOver    int           `json:"left_over,omitempty"`    // processes ended by the engine after the last command
	LeftRunning string        `json:"left_running,omitempty"` // why its leftover processes count as a failure
	Stuck       []int         `json:"stuck,omitempty"`        // PIDs that survived SIGKILL for 30 s; they may hold GPUs
	Uncharged   string        `json:"uncharged,omitempty"`    // why the job is not to blame for the failure, so it spends no retry
	Displaced   bool          `json:"displaced,omitempty"`    // with Uncharged: it was preempted or its node was unfit; happens any number of times

	PeakHost gpu.Bytes  `json:"peak_host_memory_bytes,omitempty"` // of its largest process; 0 if unknown
	Peaks    []gpu.Peak `json:"peaks,omitempty"`                  // of its GPUs, if only the engine can read them
	Readings int        `json:"peak_readings,omitempty"`          // number of readings in which it used any of them

	// Of no record.
	Refused bool   `json:",omitempty"` // with Err: the cluster refuses it, and would refuse it again
	NoRoom  bool   `json:",omitempty"` // with Err: the disk is full, so nothing ran
	Unsaved string `json:",omitempty"` // why its status record could not be written
}
