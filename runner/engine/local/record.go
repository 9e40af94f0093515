package local

import (
	"bytes"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"hash/crc32"
	"path/filepath"
	"time"

	"golang.org/x/sys/unix"

	"gpurun/runner/engine"
	"gpurun/state/host"
	"gpurun/state/jsonline"
)

// statusFile is the record of an attempt in its folder. It is written at full length
// before anything starts and only ever overwritten in place, so that a full disk cannot
// lose an end.
const (
	statusFile = "status"
	statusSize = 4096
)

var blanks = bytes.Repeat([]byte{' '}, statusSize)

// States of an attempt in its record.
const (
	recordOpen  = "open"  // it may be running
	recordEnded = "ended" // it is over, and everything known about it is here
)

// record is what remains of an attempt when nobody is left who remembers it.
type record struct {
	State    string        `json:"state"`
	UniID    string        `json:"uni_id"`
	Steps    int           `json:"steps"` // number of commands
	PID      int           `json:"pid,omitempty"`
	Start    uint64        `json:"pid_start,omitempty"`
	Why      string        `json:"why,omitempty"` // why it was stopped, recorded before the first signal
	Exit     int           `json:"exit"`
	Signal   string        `json:"signal,omitempty"`
	Started  time.Time     `json:"started"`
	Ended    time.Time     `json:"ended,omitzero"`
	Elapsed  time.Duration `json:"elapsed_ns,omitempty"`
	OOM      bool          `json:"oom_killed,omitempty"`
	Lost     bool          `json:"lost,omitempty"`
	Void     bool          `json:"void,omitempty"`
	Err      string        `json:"error,omitempty"`
	Report   string        `json:"report,omitempty"`
	LeftOver int           `json:"left_over,omitempty"`
	Stuck    []int         `json:"stuck,omitempty"`
	Behind   bool          `json:"background,omitempty"` // the commands ended with 0, and the processes they left are the attempt
	LeftRun  string        `json:"left_running,omitempty"`

	Tree    bool          `json:"tree,omitempty"` // the attempt ends when no process of its tree is left
	Timeout time.Duration `json:"timeout_ns,omitempty"`
	Grace   time.Duration `json:"grace_ns,omitempty"`
	Boot    time.Duration `json:"boottime_ns,omitempty"` // CLOCK_BOOTTIME of the start
	BootID  string        `json:"boot_id,omitempty"`     // boot of the machine that the pids and times belong to

	Of *origin `json:"of,omitempty"`
}

// ended returns the record as an event of the engine.
func (r *record) ended() *engine.Ended {
	return &engine.Ended{
		ExitCode: r.Exit, Signal: r.Signal, Why: r.Why, Started: r.Started, At: r.Ended, Elapsed: r.Elapsed,
		OOMKilled: r.OOM, Lost: r.Lost, Void: r.Void, Err: r.Err, Report: r.Report, LeftOver: r.LeftOver, Stuck: r.Stuck,
		LeftRunning: r.LeftRun,
	}
}

// encode returns the record at full length: a checksum, then JSON, then blanks.
func (r *record) encode() []byte {
	const longest = 1024
	c := *r
	for i := 0; ; i++ {
		line, err := c.appendTo(append(make([]byte, 0, statusSize), "01234567 "...))
		if err == nil && len(line) < statusSize-1 {
			var sum [4]byte
			binary.BigEndian.PutUint32(sum[:], crc32.ChecksumIEEE(line[9:]))
			hex.Encode(line, sum[:])
			return append(append(line, blanks[:statusSize-1-len(line)]...), '\n')
		}
		c.Err = c.Err[:min(len(c.Err), longest>>i)]
		c.Of = c.Of.shorter(i)
		c.LeftRun = c.LeftRun[:min(len(c.LeftRun), longest>>i)]
		c.Stuck = c.Stuck[:min(len(c.Stuck), 100>>i)]
	}
}

// appendTo appends the record the way encoding/json would.
func (r *record) appendTo(b []byte) ([]byte, error) {
	o := jsonline.Append(b)
	o.String("state", r.State)
	o.String("uni_id", r.UniID)
	o.Int("steps", int64(r.Steps))
	o.If(r.PID != 0).Int("pid", int64(r.PID))
	o.If(r.Start != 0).Uint("pid_start", r.Start)
	o.If(r.Why != "").String("why", r.Why)
	o.Int("exit", int64(r.Exit))
	o.If(r.Signal != "").String("signal", r.Signal)
	o.Time("started", r.Started)
	o.If(!r.Ended.IsZero()).Time("ended", r.Ended)
	o.If(r.Elapsed != 0).Int("elapsed_ns", int64(r.Elapsed))
	o.If(r.OOM).Bool("oom_killed", true)
	o.If(r.Lost).Bool("lost", true)
	o.If(r.Void).Bool("void", true)
	o.If(r.Err != "").String("error", r.Err)
	o.If(r.Report != "").String("report", r.Report)
	o.If(r.LeftOver != 0).Int("left_over", int64(r.LeftOver))
	if len(r.Stuck) > 0 {
		o.Value("stuck", r.Stuck)
	}
	o.If(r.Behind).Bool("background", true)
	o.If(r.LeftRun != "").String("left_running", r.LeftRun)
	o.If(r.Tree).Bool("tree", true)
	o.If(r.Timeout != 0).Int("timeout_ns", int64(r.Timeout))
	o.If(r.Grace != 0).Int("grace_ns", int64(r.Grace))
	o.If(r.Boot != 0).Int("boottime_ns", int64(r.Boot))
	o.If(r.BootID != "").String("boot_id", r.BootID)
	if r.Of != nil {
		o.Value("of", r.Of)
	}
	return o.End()
}

var errNoRecord = errors.New("no readable status record")

// readRecord reads an attempt's record from its folder. If it is torn, missing or
// another attempt's, the error is errNoRecord.
func readRecord(dir, uniID string) (*record, error) {
	b, err := host.ReadOwn(filepath.Join(dir, statusFile), 2*statusSize)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", errNoRecord, err)
	}
	sum, body, _ := bytes.Cut(bytes.TrimRight(b, " \n"), []byte(" "))
	if string(sum) != fmt.Sprintf("%08x", crc32.ChecksumIEEE(body)) {
		return nil, fmt.Errorf("%w: checksum differs", errNoRecord)
	}
	var r record
	if err := json.Unmarshal(body, &r); err != nil {
		return nil, fmt.Errorf("%w: %w", errNoRecord, err)
	}
	if r.UniID != uniID {
		return nil, fmt.Errorf("%w: it belongs to %q", errNoRecord, r.UniID)
	}
	return &r, nil
}

// recordFile is the descriptor of an attempt's open record.
type recordFile int

// noRecord is a recordFile that is not open.
const noRecord recordFile = -1

// createRecord writes a new record at full length. Without it nothing starts.
func createRecord(dir string, r *record) (recordFile, error) {
	path := filepath.Join(dir, statusFile)
	fd, err := openFile(path, unix.O_RDWR|unix.O_CREAT|unix.O_EXCL, 0o644)
	f := recordFile(fd)
	if err != nil {
		return -1, fmt.Errorf("cannot create the status record %q: %w", path, err)
	}
	if err := f.put(r); err != nil {
		f.close()
		return -1, fmt.Errorf("cannot write the status record %q: %w", path, err)
	}
	return f, nil
}

// openRecord opens the record of an attempt whose keeper is gone.
func openRecord(dir string) (recordFile, error) {
	path := filepath.Join(dir, statusFile)
	fd, err := openFile(path, unix.O_RDWR|unix.O_NOFOLLOW|unix.O_NONBLOCK, 0)
	if err != nil {
		return -1, fmt.Errorf("cannot open the status record: %w", err)
	}
	return recordFile(fd), nil
}

// openFile opens a file, close-on-exec. Package os would make four more system calls,
// which a file used with blocking calls does not need.
func openFile(path string, flags int, mode uint32) (int, error) {
	for {
		fd, err := unix.Open(path, flags|unix.O_CLOEXEC, mode)
		if err != unix.EINTR {
			return fd, err
		}
	}
}

// put overwrites the record.
func (f recordFile) put(r *record) error {
	line := r.encode()
	for {
		n, err := unix.Pwrite(int(f), line, 0)
		if err == nil && n < len(line) {
			err = unix.ENOSPC // what was written has no valid checksum and will not be read
		}
		if err != unix.EINTR {
			return err
		}
	}
}

func (f recordFile) close() { _ = unix.Close(int(f)) }
