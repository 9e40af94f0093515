package probe

import (
	"bytes"
	"errors"
	"regexp"
	"sync"

	"gpurun/gpu"
)

// The parent and the child exchange lines of JSON: the child sends a hello, then answers each
// question. Times in an answer are relative to the reading; the parent converts them to its own
// clock.

// maxLine bounds one line: about a thousand processes on each of 64 devices.
const maxLine = 16 << 20

var errLongLine = errors.New("line too long for an answer")

// hello reports what the child found, or why it found nothing.
type hello struct {
	Devices  []gpu.Device `json:"devices,omitempty"`
	Version  string       `json:"version,omitempty"`
	Missing  *Missing     `json:"missing,omitempty"`
	Warnings []string     `json:"warnings,omitempty"`
	Partial  bool         `json:"partial,omitempty"` // Devices lacks some devices that NVML counts
}

// A question requests a reading. Its UUIDs are never empty.
type question struct {
	ID uint64
	Query
}

// An answer contains one reading for each device in its question.
type answer struct {
	ID       uint64        `json:"id"`
	Hello    *hello        `json:"hello,omitempty"` // only in the first answer, which contains nothing else
	Readings []gpu.Reading `json:"readings,omitempty"`
	// Gone is why the whole driver is gone, or "". If the driver is gone, the child exits, because a
	// process that has loaded one NVML cannot load another.
	Gone string `json:"gone,omitempty"`
}

// A tail keeps the last tailSize bytes written to it.
type tail struct {
	mu   sync.Mutex
	text []byte
}

const tailSize = 64 << 10

func (t *tail) Write(p []byte) (int, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.text = append(t.text, p...)
	t.text = t.text[max(0, len(t.text)-tailSize):]
	return len(p), nil
}

// goCrash matches the line with the reason for a Go program's crash.
var goCrash = regexp.MustCompile(`(?m)^(panic: |fatal error: |runtime/cgo: |SIG).*`)

// last returns the most informative line: the first one of a Go crash, else the last line.
func (t *tail) last() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	if line := goCrash.Find(t.text); line != nil {
		return string(line)
	}
	text := bytes.TrimSpace(t.text)
	return string(bytes.TrimSpace(text[bytes.LastIndexByte(text, '\n')+1:]))
}
