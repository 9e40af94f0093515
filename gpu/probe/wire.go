package probe

import (
	"bytes"
	"errors"
	"regexp"
	"sync"

	"gpurun/gpu"
)

// The parent and the child exchange lines of JSON: the child says hello, then
// answers each question. Times in an answer are relative to the reading; the
// parent converts them to its own clock.

// maxLine bounds one line: about a thousand processes on each of 64 devices.
const maxLine = 16 << 20

var errLongLine = errors.New("line too long for an answer")

// hello is what the child found, or why it found nothing.
type hello struct {
	Devices  []gpu.Device `json:"devices,omitempty"`
	Version  string       `json:"version,omitempty"`
	Missing  *Missing     `json:"missing,omitempty"`
	Warnings []string     `json:"warnings,omitempty"`
	Partial  bool         `json:"partial,omitempty"` // Devices lacks some that NVML counts
}

// A question asks for a reading. Its UUIDs are never empty.
type question struct {
	ID uint64
	Query
}

// An answer has one reading for each device in its question.
type answer struct {
	ID       uint64        `json:"id"`
	Hello    *hello        `json:"hello,omitempty"` // in the first answer, and nothing else
	Readings []gpu.Reading `json:"readings,omitempty"`
	// Gone is why the whole driver is gone, or "". The child then exits, since a
	// process that has loaded one NVML cannot load another.
	Gone string `json:"gone,omitempty"`
}

// A tail is the last of what is written to it.
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

// goCrash is the line that says why a Go program crashed.
var goCrash = regexp.MustCompile(`(?m)^(panic: |fatal error: |runtime/cgo: |SIG).*`)

// last returns the most telling line: the first of a Go crash, else the last one.
func (t *tail) last() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	if line := goCrash.Find(t.text); line != nil {
		return string(line)
	}
	text := bytes.TrimSpace(t.text)
	return string(bytes.TrimSpace(text[bytes.LastIndexByte(text, '\n')+1:]))
}
