package wire

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"hash/crc32"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"gpurun/gpu"
	"gpurun/runner/engine"
	"gpurun/runner/engine/procs"
	"gpurun/state"
	"gpurun/state/host"
)

// StatusFile contains the record of an attempt that has a folder instead of a slot in a journal.
// Like a slot, it is written at full length before anything starts and only ever overwritten in
// place, so that a full disk cannot lose an end. Engines may store more after the record.
const (
	StatusFile = "status"
	StatusSize = state.SlotSize
	statusMost = 8 * StatusSize
)

// States of an attempt in its record.
const (
	StateOpen = "open"  // it may be running
	StateOver = "ended" // it is over, and the record has all that is known about it
)

// A Record is an attempt's state on disk, for when neither its keeper nor its runner is left.
type Record struct {
	State  string     `json:"state"`
	UniID  string     `json:"uni_id"`
	Steps  int        `json:"steps"` // number of commands
	Begun  int        `json:"begun,omitempty"`
	Roots  []procs.ID `json:"roots,omitempty"` // first processes of the (latest) commands that have begun; zero while unknown
	Latest time.Time  `json:"latest,omitzero"` // when the latest command began
	state.End
	Behind bool      `json:"background,omitempty"`             // the commands exited with 0, and the attempt lasts as long as the processes they left
	Unfit  gpu.Bytes `json:"unfit_gpu_memory_bytes,omitempty"` // it did not begin because a GPU of the node has only this much memory
	Untold bool      `json:"gpus_untold,omitempty"`            // it did not begin because the node did not say which GPUs it can use

	Save      time.Duration         `json:"save_ns,omitempty"` // CLOCK_BOOTTIME at which its time to save its work ends
	Tree      bool                  `json:"tree,omitempty"`    // the attempt ends when no process of its tree is left
	Timeout   time.Duration         `json:"timeout_ns,omitempty"`
	OnTimeout *engine.TimeoutSignal `json:"notice,omitempty"` // signal to send when its timeout expires
	Grace     time.Duration         `json:"grace_ns,omitempty"`
	Boot      time.Duration         `json:"boottime_ns,omitempty"` // CLOCK_BOOTTIME of the start
	BootID    string                `json:"boot_id,omitempty"`     // boot of the machine that the pids and times belong to

	Of *Origin `json:"of,omitempty"`

	Slot state.Slot `json:"-"` // where the record is
}

// StopSignal returns the signal that the attempt gets when its timeout expires.
func (r *Record) StopSignal() engine.TimeoutSignal {
	n := engine.TimeoutSignal{Grace: r.Grace}
	if r.OnTimeout != nil {
		n = *r.OnTimeout
	}
	if n.Signal == "TERM" {
		n.Signal = ""
	}
	return n
}

// Encode returns the record at full length: a checksum, then JSON, then blanks.
func (r *Record) Encode() []byte {
	const longest = 1024
	c := *r
	for i := 0; ; i++ {
		body, _ := json.Marshal(c) // every field has a JSON form
		if sealed := Seal(body, StatusSize); sealed != nil {
			return sealed
		}
		c.Err, c.Uncharged = c.Err[:min(len(c.Err), longest>>i)], c.Uncharged[:min(len(c.Uncharged), longest>>i)]
		c.Of = c.Of.shorter(i)
		c.LeftRunning = c.LeftRunning[:min(len(c.LeftRunning), longest>>i)]
		c.Stuck = c.Stuck[:min(len(c.Stuck), 100>>i)]
		c.Peaks = c.Peaks[:min(len(c.Peaks), 32>>i)]
		c.Roots = c.Roots[max(0, len(c.Roots)-32>>i):]
	}
}

// Seal returns a checksum, the body, and blanks up to size; nil if size is too small.
func Seal(body []byte, size int) []byte {
	line := fmt.Appendf(nil, "%08x %s", crc32.ChecksumIEEE(body), body)
	if len(line) >= size {
		return nil
	}
	return append(append(line, bytes.Repeat([]byte{' '}, size-1-len(line))...), '\n')
}

// Unseal returns the body that Seal sealed, and whether it is intact.
func Unseal(b []byte) (body []byte, ok bool) {
	sum, body, _ := bytes.Cut(bytes.TrimRight(b, " \n"), []byte(" "))
	return body, string(sum) == fmt.Sprintf("%08x", crc32.ChecksumIEEE(body))
}

var ErrNoRecord = errors.New("no readable status record")

// ReadStatus returns the contents of an attempt's StatusFile.
func ReadStatus(dir string) ([]byte, error) {
	return host.ReadOwn(filepath.Join(dir, StatusFile), statusMost)
}

// ReadRecord reads an attempt's record from its folder. If it is torn, missing or
// another attempt's, the error is ErrNoRecord.
func ReadRecord(dir, uniID string) (*Record, error) {
	b, err := ReadStatus(dir)
	if errors.Is(err, fs.ErrNotExist) {
		err = fmt.Errorf("%w: %w", ErrNoRecord, err)
	}
	if err != nil {
		return nil, err
	}
	return RecordIn(b, uniID)
}

// RecordIn is like ReadRecord, but takes the contents of a StatusFile.
func RecordIn(b []byte, uniID string) (*Record, error) {
	body, ok := Unseal(b[:min(len(b), StatusSize)])
	if !ok {
		return nil, fmt.Errorf("%w: checksum differs", ErrNoRecord)
	}
	var r Record
	if err := json.Unmarshal(body, &r); err != nil {
		return nil, fmt.Errorf("%w: %w", ErrNoRecord, err)
	}
	if r.UniID != uniID {
		return nil, fmt.Errorf("%w: it belongs to %q", ErrNoRecord, r.UniID)
	}
	if r.Unfit > 0 { // until version 2, Unfit alone implied these
		r.Uncharged, r.Displaced = r.Err, true
	}
	return &r, nil
}

// OpenRecord opens the file of an attempt's record. It never creates the file: if it is missing,
// the attempt was given up.
func OpenRecord(dir string, s state.Slot) (*os.File, error) {
	f, err := host.OpenOwn(cmp.Or(s.Journal, filepath.Join(dir, StatusFile)), os.O_RDWR, 0)
	if err != nil {
		return nil, fmt.Errorf("cannot open the file of the status record: %w", host.Cause(err))
	}
	return f, nil
}

// Put overwrites a record in f. Readers ignore a partly written record, because it has no valid
// checksum.
func (r *Record) Put(f *os.File) error {
	_, err := f.WriteAt(r.Encode(), int64(r.Slot.N)*StatusSize)
	return host.Cause(err)
}

// An Origin is what a record keeps about an attempt's start in case the ledger loses it: enough to
// identify the attempt's job and its devices.
type Origin struct {
	Job     string     `json:"job"`
	Key     string     `json:"key"`
	Needs   string     `json:"needs,omitempty"`
	Attempt int        `json:"attempt"`
	Log     string     `json:"log,omitempty"`
	GPUs    []int      `json:"gpus,omitempty"`
	UUIDs   []gpu.UUID `json:"gpu_uuids,omitempty"`
	Memory  gpu.Bytes  `json:"memory_bytes,omitempty"`
	Host    string     `json:"host"`
	PIDNS   string     `json:"pid_ns"`
}

// OriginOf returns the origin of a launch on this host.
func OriginOf(l *engine.Launch) *Origin {
	return &Origin{
		Job: l.Job, Key: l.Key, Needs: l.Needs, Attempt: l.Attempt, Log: l.Stdout,
		GPUs: l.Grant.Indices, UUIDs: l.Grant.UUIDs, Memory: l.Grant.Memory, Host: host.Name(), PIDNS: host.PIDNamespace(),
	}
}

// Trace returns the start of an attempt that began at the given time, for a ledger that lost it.
func (o *Origin) Trace(uniID string, at time.Time) state.Trace {
	start := state.Fact{
		Kind: state.KindStart, Time: at.UTC(), Job: o.Job, Key: o.Key, UniID: uniID, Attempt: o.Attempt,
		GPUs: o.GPUs, GPUUUIDs: o.UUIDs, Memory: o.Memory, Log: o.Log, Needs: o.Needs,
	}
	return state.Trace{Began: true, Start: start, Run: state.Fact{Kind: state.KindRun, Host: o.Host, PIDNS: o.PIDNS}}
}

// shorter shortens an origin that does not fit into its record: first it drops the log, then the
// end of a long name, and finally the devices.
func (o *Origin) shorter(i int) *Origin {
	if o == nil {
		return nil
	}
	c := *o
	c.Log = ""
	c.Job = c.Job[:min(len(c.Job), 1024>>i)]
	if i > 4 {
		c.GPUs, c.UUIDs = nil, nil
	}
	return &c
}
