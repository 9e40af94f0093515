package state

import "time"

// A History is what the facts of a batch's ledgers come to. It is changed by
// Apply alone, when a ledger is loaded and while a run goes on.
type History struct {
	Last map[string]*Record  // by key: what is known of the last end of each key
	Open map[string]*Attempt // by uni_id: started, not yet ended
	seq  int64
}

// A Record is the last end of one key.
type Record struct {
	Key       string
	Job       string // name it had
	State     Phase
	UniID     string
	Attempt   int
	Start     time.Time // zero when the ledger has no start of it (done)
	End       time.Time
	StartSeq  int64 // order of the start among the lines of its ledger
	EndSeq    int64 // order of the end
	ExitCode  *int
	Signal    string
	ErrorType string
	Reason    string
	Seconds   float64
	Needs     string
	Inputs    []Input
	Log       string
	Commands  []string // of its start; kept only for jobs that did not succeed, else nil
	Peak      int64
	GPUs      int
	Forgotten bool // a forget came after it
	By        string
}

// An Attempt is one that has started and not yet ended.
type Attempt struct {
	Start   Fact
	Seq     int64
	Running *Fact  // pid and its start time, once known
	Stop    string // why it was to be stopped, or ""
	Ledger  int    // index of the batch's file whose ledger has it
}
